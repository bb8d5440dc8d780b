"""Makes the workers that a placement asks for."""

import random
import time
from collections.abc import Callable, Sequence
from typing import Any

from adaptive_batching.workers.external.connection import WorkerTerms
from adaptive_batching.workers.external.external import ExternalWorkers
from adaptive_batching.workers.handler import HandlerReference
from adaptive_batching.workers.interface import Workers
from adaptive_batching.workers.local import TaskWorkers, ThreadWorkers
from adaptive_batching.workers.multi_handler import (
    HandlerReferences,
    NamedHandler,
    WarmUps,
    multi_handler,
)
from adaptive_batching.workers.pickled import Pickled
from adaptive_batching.workers.placement import (
    External,
    Placement,
    Processes,
    RayWorkers,
    Tasks,
    Threads,
)
from adaptive_batching.workers.pool.launcher import Launcher
from adaptive_batching.workers.pool.pool import WorkerPool
from adaptive_batching.workers.pool.recycling import Lifetimes
from adaptive_batching.workers.process.process_launcher import ProcessLauncher
from adaptive_batching.workers.warm_up import NO_WARM_UP, WarmUp


def make_workers(
    handler: Any,
    placement: Placement,
    wrap: Callable[[Any], Any] | None = None,
    warm_up: WarmUp = NO_WARM_UP,
) -> Workers:
    """Make workers that run a handler, not yet started.

    Args:
        handler: A function or a class; see `workers.handler`.
        placement: Where it runs.
        wrap: Takes the handler, ready to be called with items, and returns what to call instead.
            It gets, and returns, an async function if the placement is `Tasks` or `External`, else
            a plain one.
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
        case Processes():
            found = HandlerReference.to(handler)
            pickled = None if wrap is None else Pickled.of(wrap)
            return _processes(found, pickled, placement, warm_up)
        case RayWorkers():
            return _pool(_ray_launcher(handler, wrap, placement), placement, warm_up)
        case External():
            if warm_up is not NO_WARM_UP:
                raise ValueError("workers that come by themselves are warm: expected no examples")
            return ExternalWorkers(
                placement.path,
                WorkerTerms(placement.timeout, placement.max_frame),
                max_workers=placement.max_workers,
                uids=placement.uids,
                wrap=wrap,
            )


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
            return _processes(HandlerReferences.to(members), None, placement, warm_up)
        case Tasks() | Threads():
            handlers = {each.name: (each.handler, each.wrap) for each in members}
            return make_workers(multi_handler(handlers), placement, None, warm_up)
    raise ValueError(f"only tasks, threads and processes can be shared, got {placement}")


def _processes(
    handler: HandlerReference | HandlerReferences,
    wrap: Pickled | None,
    placement: Processes,
    warm_up: WarmUp,
) -> WorkerPool:
    launcher = ProcessLauncher(
        handler,
        wrap,
        placement.cpu_groups(),
        placement.max_result_bytes,
        placement.shared_memory,
    )
    return _pool(launcher, placement, warm_up, _lifetimes(placement))


def _pool(
    launcher: Launcher,
    placement: Processes | RayWorkers,
    warm_up: WarmUp,
    lifetimes: Lifetimes | None = None,
) -> WorkerPool:
    return WorkerPool(
        launcher,
        placement.count,
        timeout=placement.timeout,
        start_timeout=placement.start_timeout,
        lifetimes=lifetimes,
        warm_up=warm_up,
    )


def _ray_launcher(handler: Any, wrap: Any, placement: RayWorkers) -> Launcher:
    try:
        from adaptive_batching.workers.ray_actor import RayLauncher  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        msg = "RayWorkers need Ray: pip install 'adaptive-batching[ray]'"
        raise ModuleNotFoundError(msg, name="ray") from error
    return RayLauncher(handler, wrap, placement.options(), placement.address)


def _lifetimes(placement: Processes) -> Lifetimes | None:
    limits = placement.max_batches, placement.max_rss
    if limits == (None, None):
        return None
    return Lifetimes(*limits, clock=time.monotonic, random=random.random)
