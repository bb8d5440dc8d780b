"""Makes the workers that a placement asks for.

Processes, actors and sockets are imported when a placement asks for them: together they take as
long as all the rest of what a decorated function needs.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from adaptive_batching.units import seconds_of
from adaptive_batching.workers.handler.warm_up import NO_WARM_UP, WarmUp
from adaptive_batching.workers.interface import Workers
from adaptive_batching.workers.local import TaskWorkers, ThreadWorkers
from adaptive_batching.workers.placement import Placement, Tasks, Threads

if TYPE_CHECKING:
    from adaptive_batching.workers.elsewhere import ExternalWorkers


def make_workers(
    handler: Any,
    placement: Placement,
    wrap: Callable[[Any], Any] | None = None,
    warm_up: WarmUp = NO_WARM_UP,
) -> Workers:
    """Make workers that run a handler, not yet started.

    Args:
        handler: A function or a class; see `workers.handler.handler`.
        placement: Where it runs.
        wrap: Takes the handler, ready to be called with items, and returns what to call instead.
            It gets, and returns, an async function if the placement is `Tasks` or
            `ExternalWorkers`, else a plain one.
        warm_up: What each worker runs before it is ready.

    Raises:
        TypeError: The handler is async where it can't be, or isn't where it must be.
        ValueError: There are examples for workers that we do not start.
        HandlerNotFound: A worker process could not import the handler.
    """
    match placement:
        case Tasks(count):
            return TaskWorkers(handler, count, wrap, warm_up)
        case Threads(count):
            return ThreadWorkers(handler, count, wrap, warm_up)
    return _elsewhere(handler, placement, wrap, warm_up)


def _elsewhere(
    handler: Any, placement: Placement, wrap: Callable[[Any], Any] | None, warm_up: WarmUp
) -> Workers:
    from adaptive_batching.workers.elsewhere import (  # noqa: PLC0415
        ExternalWorkers,
        Processes,
        RayWorkers,
    )

    match placement:
        case Processes():
            from adaptive_batching.workers.pooled import processes  # noqa: PLC0415

            return processes(handler, wrap, placement, warm_up)
        case RayWorkers():
            from adaptive_batching.workers.pooled import actors  # noqa: PLC0415

            return actors(handler, wrap, placement, warm_up)
        case ExternalWorkers():
            if warm_up is not NO_WARM_UP:
                raise ValueError("workers that come by themselves are warm: expected no examples")
            return _external(placement, wrap)
    raise TypeError(f"workers: expected one of the package's placements, got {placement!r}")


def _external(placement: "ExternalWorkers", wrap: Callable[[Any], Any] | None) -> Workers:
    from adaptive_batching.workers.external.connection import WorkerTerms  # noqa: PLC0415
    from adaptive_batching.workers.external.external import ConnectedWorkers  # noqa: PLC0415

    return ConnectedWorkers(
        placement.path,
        WorkerTerms(seconds_of("timeout", placement.timeout), placement.max_frame),
        max_workers=placement.max_workers,
        uids=placement.uids,
        wrap=wrap,
    )
