"""What viewers are sent. All times are seconds, instants those of the program's monotonic clock."""

import msgspec

from adaptive_batching.instrumentation.live.second import Second
from adaptive_batching.instrumentation.live.slo import Slo

DIGITS = 6  # microseconds; more would only be longer


class EndedBatch(msgspec.Struct, frozen=True, array_like=True):
    """One batch that has ended.

    Attributes:
        number: How many ended before it.
        released: When it left.
        finished: When its worker was done.
        size: Its items.
        worker: Index of its worker.
        reason: Why it left.
        outcome: How it ended.
        predicted: How long it was expected to take.
        cost: What it cost, where items don't cost the same.
    """

    number: int
    released: float
    finished: float
    size: int
    worker: int
    reason: str
    outcome: str
    predicted: float
    cost: float = 0.0


class WorkerView(msgspec.Struct, frozen=True):
    """One worker.

    Attributes:
        alive: Whether it holds a batch or could take one.
        batches: Batches that it has ended.
        slowness: Duration of its batches relative to those of most workers that are alive.
        busy_since: When the batch left that it holds; None if it holds none.
        name: That of a model server, or of a worker that connects by itself; otherwise empty.
    """

    alive: bool
    batches: int
    slowness: float
    busy_since: float | None
    name: str = ""


class EndpointView(msgspec.Struct, frozen=True):
    """Where batches are formed: an endpoint, a stage of a pipeline, a route.

    Attributes:
        name: As in metrics.
        max_batch_size: Items.
        max_latency: Seconds; None for no limit.
        max_queue: Items that may wait.
        promise: How it was kept in the last minute.
        requests: Since the start, ended requests by outcome.
        releases: Since the start, ended batches by the reason of their release.
        batches: Since the start.
        items: In them.
        fixed: Fitted seconds of any batch.
        per_item: Fitted seconds of each item.
        per_cost: Fitted seconds of each unit of cost, which are in `per_item` too, at `mean_cost`.
        mean_cost: Of an item of late, padding included; 0 where all cost the same.
        lately: Latency percentiles 50, 90 and 99 of the last ten seconds.
        queued: Items that wait.
        in_flight: Requests that wait or run.
        queued_seconds: Predicted until all that waits has run, if every worker were idle.
        saturation: Share of what the workers can do, in full batches, that is offered.
        error: Mean distance of batches from their prediction, relative.
        advice: Sizes to be declared, and why; empty if there is none.
        workers: By index.
        seconds: New ones, oldest first.
        ran: New batches, oldest first; of very many only the last.
    """

    name: str
    max_batch_size: int
    max_latency: float | None
    max_queue: int
    promise: Slo
    requests: dict[str, int]
    releases: dict[str, int]
    batches: int
    items: int
    fixed: float
    per_item: float
    per_cost: float
    mean_cost: float
    lately: tuple[float | None, float | None, float | None]
    queued: int
    in_flight: int
    queued_seconds: float
    saturation: float
    error: float
    advice: str
    workers: list[WorkerView]
    seconds: list[Second]
    ran: list[EndedBatch]


class View(msgspec.Struct, frozen=True):
    """All endpoints.

    Attributes:
        now: When they were looked at.
        endpoints: In the order of registration.
    """

    now: float
    endpoints: list[EndpointView]
