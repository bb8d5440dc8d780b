"""Makes pools of workers that are started, watched and replaced: processes and Ray's actors."""

import random
import time
from collections.abc import Callable, Sequence
from typing import Any

from adaptive_batching.units import seconds_of
from adaptive_batching.workers.elsewhere import Processes, RayWorkers
from adaptive_batching.workers.handler.handler_reference import HandlerReference, HandlerReferences
from adaptive_batching.workers.handler.multi_handler import NamedHandler
from adaptive_batching.workers.handler.pickled import Pickled
from adaptive_batching.workers.handler.warm_up import WarmUp
from adaptive_batching.workers.pool.launcher import Launcher, PoolWorker
from adaptive_batching.workers.pool.pool import WorkerPool
from adaptive_batching.workers.process.process_launcher import ProcessLauncher


def processes(
    handler: Any, wrap: Callable[[Any], Any] | None, placement: Processes, warm_up: WarmUp
) -> WorkerPool:
    """Make a pool of processes that run a handler; see `make_workers`."""
    pickled = None if wrap is None else Pickled.of(wrap)
    return _processes(HandlerReference.to(handler), pickled, placement, warm_up)


def shared_processes(
    members: Sequence[NamedHandler], placement: Processes, warm_up: WarmUp
) -> WorkerPool:
    """Make a pool of processes that run several handlers; see `make_shared_workers`."""
    return _processes(HandlerReferences.to(members), None, placement, warm_up)


def actors(
    handler: Any, wrap: Callable[[Any], Any] | None, placement: RayWorkers, warm_up: WarmUp
) -> WorkerPool:
    """Make a pool of Ray's actors that run a handler; see `make_workers`."""
    return _pool(_ray_launcher(handler, wrap, placement), placement, warm_up)


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
        placement.environment,
        placement.most,
        placement.max_result_bytes,
        placement.shared_memory,
    )
    return _pool(launcher, placement, warm_up, _worn_out(placement))


def _pool(
    launcher: Launcher,
    placement: Processes | RayWorkers,
    warm_up: WarmUp,
    worn_out: Callable[[PoolWorker], bool] | None = None,
) -> WorkerPool:
    return WorkerPool(
        launcher,
        placement.count,
        timeout=seconds_of("timeout", placement.timeout),
        start_timeout=seconds_of("start_timeout", placement.start_timeout),
        worn_out=worn_out,
        warm_up=warm_up,
    )


def _ray_launcher(handler: Any, wrap: Any, placement: RayWorkers) -> Launcher:
    try:
        from adaptive_batching.workers.ray_actor import RayLauncher  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        msg = "RayWorkers need Ray: pip install 'ray>=2.52'"
        raise ModuleNotFoundError(msg, name="ray") from error
    return RayLauncher(handler, wrap, placement.options(), placement.address)


def _worn_out(placement: Processes) -> Callable[[PoolWorker], bool] | None:
    limits = placement.max_batches, placement.max_rss
    if limits == (None, None):
        return None
    from adaptive_batching.workers.pool.recycling import Lifetimes  # noqa: PLC0415 - psutil, 50 ms

    return Lifetimes(*limits, clock=time.monotonic, random=random.random).over
