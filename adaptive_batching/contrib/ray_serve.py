"""Ray Serve: one queue before all replicas of a deployment, instead of one in each replica."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from adaptive_batching.errors import WorkerLost

if TYPE_CHECKING:
    from ray.serve.handle import DeploymentHandle

__all__ = ["over_replicas"]


def over_replicas(
    handle: "DeploymentHandle",
) -> Callable[[list[Any]], Awaitable[Sequence[Any]]]:
    """Return a handler of lists that has one replica of a deployment run each batch.

    It belongs into the deployment that takes the requests: `batched(workers=Tasks(4))(…)` there,
    for four replicas, with `max_ongoing_requests=1` so that each runs one batch at a time.
    With `@serve.batch` requests are dealt out to the replicas first and batched there, so that each
    replica's batches are a quarter as large.

    Args:
        handle: Of the deployment whose `__call__`, or other method, takes and returns a list.
    """
    from ray.exceptions import RayActorError, RayTaskError

    async def run(items: list[Any]) -> Sequence[Any]:
        try:
            return await handle.remote(items)  # type: ignore[no-any-return]
        except RayTaskError as error:
            raise error.cause from None  # what the replica raised, as itself
        except RayActorError as error:
            message = f"a replica died while it held a batch of {len(items)}"
            raise WorkerLost(message) from error

    return run
