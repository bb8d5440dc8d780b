"""What happened in one second, as viewers are sent it."""

import msgspec


class Second(msgspec.Struct, frozen=True, array_like=True):
    """What happened from one look at an endpoint to the next, about a second later.

    Attributes:
        until: When the second look was.
        length: How long after the first.
        arrived: Requests; one that is refused arrives as well.
        done: Requests that were answered in time.
        failed: Requests whose handler or worker failed.
        expired: Requests that were let in and not answered in time.
        shed: Requests that were refused because no answer in time was in sight.
        queue_full: Requests that were refused because too many waited.
        cancelled: Requests whose client went away.
        batches: Batches that ended.
        items: Items in them.
        p50: Median latency of the requests that ran; None if none did.
        p90: The latency that nine in ten stayed below.
        p99: The latency that 99 in 100 stayed below.
        queued: Items that wait, at the end.
        running: Batches that run, at the end.
        workers: Workers that are alive, at the end.
        busy: Seconds for which workers held a batch, all of them together.
        releases: Batches that ended, by why they left; without reasons that there were none for.
        cost: Of these batches, where items don't cost the same; otherwise the items that were run,
            where batches are filled up to a few sizes.
        own_cost: What their requests would have cost alone, or their items; the rest is padding.
    """

    until: float
    length: float
    arrived: int
    done: int
    failed: int
    expired: int
    shed: int
    queue_full: int
    cancelled: int
    batches: int
    items: int
    p50: float | None
    p90: float | None
    p99: float | None
    queued: int
    running: int
    workers: int
    busy: float
    releases: dict[str, int]
    cost: float = 0.0
    own_cost: float = 0.0
