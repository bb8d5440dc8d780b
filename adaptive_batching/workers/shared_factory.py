"""Makes workers that several handlers share."""

from collections.abc import Sequence

from adaptive_batching.workers.elsewhere import Processes
from adaptive_batching.workers.factory import make_workers
from adaptive_batching.workers.handler.multi_handler import NamedHandler, WarmUps, multi_handler
from adaptive_batching.workers.interface import Workers
from adaptive_batching.workers.placement import Placement, Tasks, Threads


def make_shared_workers(members: Sequence[NamedHandler], placement: Placement) -> Workers:
    """Make workers that run several handlers, not yet started; their items are `Addressed`.

    Args:
        members: The handlers, with what each is wrapped in and warmed up with.
        placement: Where they run.

    Raises:
        TypeError: One is async where it can't be, or isn't where it must be.
        ValueError: They can't share such workers.
        HandlerNotFound: A worker process could not import one.
    """
    warm_up = WarmUps(members)
    match placement:
        case Processes():
            from adaptive_batching.workers.pooled import shared_processes  # noqa: PLC0415

            return shared_processes(members, placement, warm_up)
        case Tasks() | Threads():
            handlers = {each.name: (each.handler, each.wrap) for each in members}
            return make_workers(multi_handler(handlers), placement, None, warm_up)
    raise ValueError(f"only tasks, threads and processes can be shared, got {placement}")
