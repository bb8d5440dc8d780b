"""The way of one endpoint's requests, from a body to its answer."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, Self

from adaptive_batching.core import Limits, PolicyLike
from adaptive_batching.dispatcher import Dispatcher, Observer, Share
from adaptive_batching.dispatcher.calls import Call
from adaptive_batching.instrumentation.histograms import BatchHistograms
from adaptive_batching.instrumentation.live.watch import Watched
from adaptive_batching.instrumentation.recent_batches import RecentBatches
from adaptive_batching.marshal.service.conversion import conversion_of_stage
from adaptive_batching.marshal.service.endpoints import Endpoint, PipelineEndpoint
from adaptive_batching.marshal.service.negotiation import Negotiation
from adaptive_batching.marshal.service.shared_dispatcher import make_shared_dispatcher
from adaptive_batching.marshal.service.shared_workers import SharedWorkers
from adaptive_batching.pipeline import Pipeline
from adaptive_batching.workers.factory import make_workers
from adaptive_batching.workers.multi_handler import Addressed
from adaptive_batching.workers.placement import Placement
from adaptive_batching.workers.warm_up import make_warm_up

ObserversByLabel = Mapping[str, Sequence[Observer]]
Answer = Callable[[Any, float], Awaitable[bytes]]


class Line(Protocol):
    """What answers the bodies of an endpoint: a dispatcher, or several in sequence."""

    @property
    def ready(self) -> bool:
        """Whether its workers have been ready."""
        ...

    async def start(self) -> None:
        """Start the workers and wait until they are ready."""
        ...

    def flush(self) -> None:
        """From now on let what waits leave as soon as a worker is free."""
        ...

    async def aclose(self, timeout: float | None = None) -> None:  # noqa: ASYNC109  a drain
        """Let what waits finish, then stop the workers."""
        ...


@dataclass(frozen=True, slots=True)
class Posting:
    """Calls for those who don't await them; see `Dispatcher.post`.

    Attributes:
        post: Lets an item join a batch; takes the seconds until its answer.
        dispatcher: Whose calls they are.
    """

    post: Callable[[Any, float], Call[Any, bytes] | None]
    dispatcher: Dispatcher[Any, bytes]

    @classmethod
    def to(cls, dispatcher: Dispatcher[Any, bytes]) -> Self:
        """To a dispatcher that is an endpoint's own."""

        def post(item: Any, within: float) -> Call[Any, bytes] | None:
            return dispatcher.post(item, None, within)

        return cls(post, dispatcher)


@dataclass(slots=True, eq=False)
class Lane:
    """The way of one endpoint's requests.

    Attributes:
        path: Where it is.
        line: Whose life it is.
        negotiation: Settles the codecs of a request.
        answer: Lets an item, which is a body with what was settled, join a batch and returns its
            answer; takes the seconds until then.
        max_latency: Seconds from a request's arrival to its answer; infinite for no promise.
        max_body: Bytes that a body may have.
        watched: Where batches are formed on the way.
        examples: Items that should have an answer.
        posting: The same as `answer` for callbacks; None if it can't be done.
        retune: Has batches formed by another policy and other limits; None if it can't be done.
        responses: Answers by status.
    """

    path: str
    line: Line
    negotiation: Negotiation
    answer: Answer
    max_latency: float
    max_body: int
    watched: Sequence[Watched]
    examples: Sequence[Any]
    posting: Posting | None = None
    retune: Callable[[PolicyLike, Limits], None] | None = None
    responses: Counter[int] = field(default_factory=Counter)


def make_lanes(
    endpoints: Iterable[Endpoint | PipelineEndpoint], observers: ObserversByLabel
) -> Iterator[Lane]:
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


def _of_handler(endpoint: Endpoint, placement: Placement, observers: ObserversByLabel) -> Lane:
    histograms, latest = BatchHistograms(endpoint.limits.max_batch_size), RecentBatches()
    warm_up = make_warm_up(endpoint.example_items, endpoint.limits.max_batch_size)
    dispatcher: Dispatcher[Any, bytes] = Dispatcher(
        make_workers(endpoint.handler, placement, endpoint.conversion, warm_up),
        endpoint.limits,
        policy=endpoint.policy,
        idempotent=endpoint.idempotent,
        observers=[histograms, latest, *observers.get(endpoint.path, ())],
        next_batch_first=True,
    )

    def answer(item: Any, within: float) -> Awaitable[bytes]:
        return dispatcher.submit(item, None, within)

    posting = Posting.to(dispatcher)
    watched = Watched(endpoint.path, dispatcher, histograms, latest)
    return _lane(endpoint, dispatcher, answer, posting, watched, dispatcher.retune)


def _of_shared(
    shared: SharedWorkers, endpoints: Sequence[Endpoint], observers: ObserversByLabel
) -> Iterator[Lane]:
    histograms = {each.path: BatchHistograms(each.limits.max_batch_size) for each in endpoints}
    latest = {each.path: RecentBatches() for each in endpoints}
    told: dict[str, list[Observer]] = {
        path: [histograms[path], latest[path], *observers.get(path, ())] for path in histograms
    }
    whole = make_shared_dispatcher(shared, endpoints, told)
    for endpoint in endpoints:
        path = endpoint.path
        share = Share(whole, path)
        watched = Watched(path, share, histograms[path], latest[path])
        answer, retune = partial(_answer_share, share, path), partial(_retune_share, share)
        posting = Posting(partial(_post_share, share, path), whole)
        yield _lane(endpoint, share, answer, posting, watched, retune)


def _answer_share(
    share: Share[Addressed, bytes], path: str, item: Any, within: float
) -> Awaitable[bytes]:
    return share.submit((path, item), within)


def _post_share(
    share: Share[Addressed, bytes], path: str, item: Any, within: float
) -> Call[Addressed, bytes] | None:
    return share.post((path, item), within)


def _retune_share(share: Share[Addressed, bytes], _policy: PolicyLike, limits: Limits) -> None:
    """The policy is that of all who share the workers."""
    share.retune(limits)


def _lane(
    endpoint: Endpoint,
    line: Line,
    answer: Answer,
    posting: Posting,
    watched: Watched,
    retune: Callable[[PolicyLike, Limits], None],
) -> Lane:
    return Lane(
        endpoint.path,
        line,
        Negotiation(endpoint.contract),
        answer,
        endpoint.limits.max_latency,
        endpoint.max_body,
        [watched],
        endpoint.example_items,
        posting,
        retune,
    )


def _of_pipeline(endpoint: PipelineEndpoint, observers: ObserversByLabel) -> Lane:
    """The same stages, of which the first reads bodies and the last writes them."""
    described, labels = endpoint.pipeline, endpoint.labels
    histograms = [BatchHistograms(stage.limits.max_batch_size) for stage in described.stages]
    latest = [RecentBatches() for _ in described.stages]
    stages = [
        replace(stage, observers=[*stage.observers, meter, last, *observers.get(label, ())])
        for stage, meter, last, label in zip(
            described.stages, histograms, latest, labels, strict=True
        )
    ]
    stages[0] = replace(stages[0], examples=endpoint.examples)
    item, result = endpoint.contract.item, endpoint.contract.result
    wraps = [
        conversion_of_stage(stage, number, len(stages), item, result)
        for number, stage in enumerate(stages)
    ]
    pipeline = Pipeline[bytes, bytes](stages, max_latency=described.max_latency, wraps=wraps)
    watched = list(map(Watched, labels, pipeline.dispatchers, histograms, latest))

    def answer(item: Any, within: float) -> Awaitable[bytes]:
        return pipeline(item, max_latency=within)

    return Lane(
        endpoint.path,
        pipeline,
        Negotiation(endpoint.contract),
        answer,
        pipeline.max_latency,
        endpoint.max_body,
        watched,
        endpoint.examples,
    )
