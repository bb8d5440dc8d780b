"""Makes what serves the endpoints of a service: dispatchers and pipelines, not yet started."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple, Self

from adaptive_batching.core import Limits, PolicyLike
from adaptive_batching.dispatcher import Dispatcher, Observer, Share
from adaptive_batching.dispatcher.calls import Call, CallInSteps, OnEnd, weigh
from adaptive_batching.errors import NoWorkers
from adaptive_batching.instrumentation.histograms import BatchHistograms
from adaptive_batching.instrumentation.live.watch import Watched
from adaptive_batching.instrumentation.recent_batches import RecentBatches
from adaptive_batching.instrumentation.size_advice import SizeAdvice
from adaptive_batching.item_costs import CostOf
from adaptive_batching.marshal.service.conversion import conversion_of_stage
from adaptive_batching.marshal.service.costs import cost_of_bodies
from adaptive_batching.marshal.service.endpoints import Endpoint, PipelineEndpoint
from adaptive_batching.marshal.service.runtimes.endpoint_runtime import (
    EndpointCall,
    EndpointRuntime,
    Post,
)
from adaptive_batching.marshal.service.runtimes.keys import key_of
from adaptive_batching.marshal.service.runtimes.list_runtime import (
    CallOfSeveral,
    Keys,
    ListRuntime,
    PostAll,
)
from adaptive_batching.marshal.service.runtimes.negotiation import Negotiation, example_items
from adaptive_batching.marshal.service.runtimes.shared_dispatcher import (
    make_shared_dispatcher,
    warm_up_of,
)
from adaptive_batching.marshal.service.shared_workers import SharedWorkers
from adaptive_batching.pipeline import Pipeline, Stage
from adaptive_batching.workers.factory import make_workers
from adaptive_batching.workers.handler.multi_handler import Addressed
from adaptive_batching.workers.placement import Placement

ObserversByLabel = Mapping[str, Sequence[Observer]]


class _Observed(NamedTuple):
    """What operators see of the batches of one dispatcher."""

    histograms: BatchHistograms
    latest: RecentBatches
    advice: SizeAdvice

    @classmethod
    def of(cls, label: str, limits: Limits) -> Self:
        """Observers that have seen nothing."""
        advice = SizeAdvice(label, attrgetter("setting"))
        return cls(BatchHistograms(limits.max_batch_size), RecentBatches(), advice)


def make_runtimes(
    endpoints: Iterable[Endpoint | PipelineEndpoint], observers: ObserversByLabel
) -> Iterator[EndpointRuntime]:
    """Make what serves some endpoints, not yet started; observers are those of each label."""
    sharing: dict[SharedWorkers, list[Endpoint]] = {}
    for endpoint in endpoints:
        if isinstance(endpoint, PipelineEndpoint):
            yield _of_pipeline(endpoint, observers)
        elif isinstance(endpoint.placement, SharedWorkers):
            sharing.setdefault(endpoint.placement, []).append(endpoint)
        else:
            yield _of_handler(endpoint, endpoint.placement, observers)
    for shared, together in sharing.items():
        yield from _of_shared(shared, together, observers)


def _of_handler(
    endpoint: Endpoint, placement: Placement, observers: ObserversByLabel
) -> EndpointRuntime:
    observed = _Observed.of(endpoint.path, endpoint.limits)
    dispatcher: Dispatcher[Any, bytes] = Dispatcher(
        make_workers(endpoint.runs, placement, endpoint.conversion, warm_up_of(endpoint)),
        endpoint.limits,
        policy=endpoint.policy,
        idempotent=endpoint.idempotent,
        observers=[*observed, *observers.get(endpoint.path, ())],
        next_batch_first=True,
    )

    watched = Watched(endpoint.path, dispatcher, *observed)
    return _runtime(endpoint, dispatcher, dispatcher.post, dispatcher, watched, dispatcher.retune)


def _of_shared(
    shared: SharedWorkers, endpoints: Sequence[Endpoint], observers: ObserversByLabel
) -> Iterator[EndpointRuntime]:
    observed = {each.path: _Observed.of(each.path, each.limits) for each in endpoints}
    told: dict[str, list[Observer]] = {
        path: [*own, *observers.get(path, ())] for path, own in observed.items()
    }
    whole = make_shared_dispatcher(shared, endpoints, told)
    for endpoint in endpoints:
        path = endpoint.path
        share = Share(whole, path)
        watched = Watched(path, share, *observed[path])
        post, retune = partial(_post_share, share, path), partial(_retune_share, share)
        yield _runtime(endpoint, share, post, whole, watched, retune)


def _post_share(
    share: Share[Addressed, bytes],
    path: str,
    on_end: OnEnd,
    item: Any,
    within: float,
    cost: float | Exception = 0.0,
) -> Call[Addressed, bytes]:
    return share.post(on_end, (path, item), within, cost)


def _retune_share(share: Share[Addressed, bytes], _policy: PolicyLike, limits: Limits) -> None:
    """The policy is that of all endpoints that share the workers."""
    share.retune(limits)


def _runtime(
    endpoint: Endpoint,
    backend: Dispatcher[Any, bytes] | Share[Addressed, bytes],
    post: Post,
    dispatcher: Dispatcher[Any, bytes],
    watched: Watched,
    retune: Callable[[PolicyLike, Limits], None],
) -> EndpointRuntime:
    if endpoint.cost_of is not None:
        post = partial(_post_at_cost, post, endpoint.cost_of)
    post_all = partial(
        CallOfSeveral, post, dispatcher.withdraw, dispatcher.take_out, backend.fail_unseen
    )
    return _maker(endpoint, post_all)(
        endpoint.path,
        backend,
        Negotiation(endpoint.contract),
        post,
        dispatcher,
        endpoint.limits.max_latency,
        endpoint.max_body,
        [watched],
        example_items(endpoint.contract, endpoint.examples),
        backend.fail_unseen,
        retune,
        key_of(endpoint),
    )


def _post_at_cost(
    post: Post, cost_of: CostOf, on_end: OnEnd, item: Any, within: float, *key: Hashable
) -> EndpointCall:
    return post(on_end, item, within, *key, cost=weigh(cost_of, item))


def _maker(
    endpoint: Endpoint | PipelineEndpoint, post_all: PostAll
) -> Callable[..., EndpointRuntime]:
    """What makes the runtime of an endpoint of single items, or of lists."""
    if endpoint.most is None:
        return EndpointRuntime
    return partial(ListRuntime, most=endpoint.most, post_all=post_all)


def _of_pipeline(endpoint: PipelineEndpoint, observers: ObserversByLabel) -> EndpointRuntime:
    labels, contract = endpoint.labels, endpoint.contract
    observed = [
        _Observed.of(label, stage.limits)
        for stage, label in zip(endpoint.pipeline.stages, labels, strict=True)
    ]
    told: list[list[Observer]] = [
        [*own, *observers.get(label, ())] for own, label in zip(observed, labels, strict=True)
    ]
    stages = _stages_of_bodies(endpoint, told)
    wraps = [
        conversion_of_stage(stage, number, len(stages), contract.item, contract.result)
        for number, stage in enumerate(stages)
    ]
    max_latency = endpoint.pipeline.max_latency
    pipeline = Pipeline[bytes, bytes](stages, max_latency=max_latency, wraps=wraps)
    watched = [
        Watched(label, dispatcher, *own)
        for label, dispatcher, own in zip(labels, pipeline.dispatchers, observed, strict=True)
    ]
    return _maker(endpoint, partial(_post_all_through, pipeline))(
        endpoint.path,
        pipeline,
        Negotiation(contract),
        partial(_post_through, pipeline),
        pipeline.dispatchers[-1],
        pipeline.max_latency,
        endpoint.max_body,
        watched,
        endpoint.examples,
        pipeline.dispatchers[0].fail_unseen,
        None,
        key_of(endpoint),
    )


def _stages_of_bodies(
    endpoint: PipelineEndpoint, told: Sequence[Sequence[Observer]]
) -> list[Stage]:
    """Stages like those described, of which the first takes bodies, with observers besides."""
    stages = [
        replace(stage, observers=[*stage.observers, *also])
        for stage, also in zip(endpoint.pipeline.stages, told, strict=True)
    ]
    first = stages[0]
    weigh = (
        None
        if first.cost is None
        else cost_of_bodies(first.cost, endpoint.contract, first.limits.costs)
    )
    stages[0] = replace(first, examples=endpoint.examples, cost=weigh)
    return stages


def _post_through(
    pipeline: Pipeline[bytes, bytes],
    on_end: OnEnd,
    item: Any,
    within: float,
    key: Hashable = None,
) -> CallInSteps[bytes]:
    _check_ready(pipeline)
    return CallInSteps(pipeline(item, max_latency=within, key=key), on_end)


def _post_all_through(
    pipeline: Pipeline[bytes, bytes],
    on_end: OnEnd,
    items: Sequence[Any],
    within: float,
    keys: Keys,
) -> CallInSteps[Sequence[bytes | BaseException]]:
    _check_ready(pipeline)
    flat = [key[0] if key else None for key in keys]
    return CallInSteps(pipeline.call_all(items, max_latency=within, keys=flat), on_end)


def _check_ready(pipeline: Pipeline[bytes, bytes]) -> None:
    if not pipeline.ready:
        raise NoWorkers("the workers are still loading")
