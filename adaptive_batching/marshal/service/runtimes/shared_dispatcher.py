"""Forms the batches of several endpoints that share their workers."""

from collections.abc import Mapping, Sequence

from adaptive_batching.core import JobClass, Limits
from adaptive_batching.dispatcher import Dispatcher, Observer, of_class
from adaptive_batching.marshal.service.endpoints import Endpoint
from adaptive_batching.marshal.service.runtimes.negotiation import example_items
from adaptive_batching.marshal.service.shared_workers import SharedWorkers
from adaptive_batching.workers.handler.multi_handler import Addressed, NamedHandler
from adaptive_batching.workers.handler.warm_up import WarmUp, make_warm_up
from adaptive_batching.workers.shared_factory import make_shared_workers


def make_shared_dispatcher(
    shared: SharedWorkers,
    endpoints: Sequence[Endpoint],
    observers: Mapping[str, Sequence[Observer]],
) -> Dispatcher[Addressed, bytes]:
    """Make what forms the batches of some endpoints for their workers, not yet started.

    Args:
        shared: The workers.
        endpoints: All that share them; the path of each is its batch key.
        observers: By path, what is told about its batches and requests.

    Raises:
        ValueError: The handlers can't share such workers.
        HandlerNotFound: A worker process could not import one.
    """
    members = [
        NamedHandler(
            each.path,
            each.runs,
            each.conversion,
            warm_up_of(each),
        )
        for each in endpoints
    ]
    placement = shared.placement([each.handler for each in endpoints])
    return Dispatcher(
        make_shared_workers(members, placement),
        _together([each.limits for each in endpoints]),
        policy=shared.policy,
        observers=[of_class(path, each) for path, each in observers.items()],
        next_batch_first=True,
        classes={
            each.path: JobClass(each.limits, idempotent=each.idempotent) for each in endpoints
        },
    )


def warm_up_of(endpoint: Endpoint) -> WarmUp:
    """What the workers of an endpoint run before they are ready."""
    items, limits = example_items(endpoint.contract, endpoint.examples), endpoint.limits
    return make_warm_up(items, limits, endpoint.cost_of)


def _together(limits: Sequence[Limits]) -> Limits:
    """What holds for all of them at least."""
    return Limits(
        max(each.max_batch_size for each in limits),
        max(each.max_latency for each in limits),
        sum(each.max_queue for each in limits),
    )
