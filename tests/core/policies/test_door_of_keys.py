"""Whom the door refuses when many batch keys want more than can be done, by what others wait for.

One worker, 10 ms for each batch whatever it holds; at most 32 items, within 300 ms.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from heapq import heapify, heappop, heappush

import pytest

from adaptive_batching.core import (
    Batch,
    Hold,
    Job,
    Limits,
    Outcome,
    Scheduler,
    make_policy,
)
from adaptive_batching.errors import Overloaded

BATCH, PROMISE = 10e-3, 0.3
ENDS = "in time", "late", "refused", "shed"
Event = tuple[float, int, Hashable]  # when, the number of the sender, whose


def of_keys(keys: Sequence[Hashable]) -> Scheduler:
    """One that has run a batch of each key, and knows how long they take."""
    scheduler, now = Scheduler(make_policy("cork"), Limits(32, PROMISE)), 0.0
    for key in keys:
        scheduler.submit(Job(now, 1, now + PROMISE, key))
        batch = scheduler.next(now)
        assert isinstance(batch, Batch)
        now += BATCH
        scheduler.finish(batch, Outcome.DONE, now)
    return scheduler


def told(
    scheduler: Scheduler, keys: Sequence[Hashable], begin: float, seconds: float, size: int = 1
) -> Counter[tuple[str, Hashable]]:
    """What becomes of the requests of users of these keys, who come again when they are told to.

    An answer or a refusal of what has waited is followed by the next request at once.
    """
    ended, running, number = Counter[tuple[str, Hashable]](), None, len(keys)
    coming: list[Event] = [(begin + user * 1e-4, user, key) for user, key in enumerate(keys)]
    heapify(coming)
    now, end, wake = begin, 0.0, begin
    while now < begin + seconds:
        now = min(coming[0][0] if coming else wake, wake, end if running else wake)
        again: list[tuple[float, Hashable]] = []
        if running is not None and end <= now:
            scheduler.finish(running, Outcome.DONE, now)
            for job in running.jobs:
                ended["in time" if now <= job.deadline else "late", job.key] += 1
            again += [(0.0, job.key) for job in running.jobs]
            running = None
        while coming and coming[0][0] <= now:
            _, _, key = heappop(coming)
            try:
                scheduler.submit(Job(now, size, now + PROMISE, key))
            except Overloaded as error:
                ended["refused", key] += 1
                again.append((error.retry_after or 0.0, key))
        while not isinstance(step := scheduler.next(now), Hold):
            if isinstance(step, Batch):
                running, end = step, now + BATCH
            else:
                ended.update(("shed", job.key) for job in step.jobs)
                again += [(0.0, job.key) for job in step.jobs]
        wake = step.until
        for after, key in again:
            number += 1
            heappush(coming, (now + after + 1e-4, number, key))
    return ended


@pytest.mark.parametrize("size", [1, 8])
def test_many_users_with_a_key_each_are_refused_before_they_wait(size: int) -> None:
    """A thousand want what thirty can have within 300 ms: the others hear at once when to come."""
    ended = told(of_keys(range(1_000)), range(1_000), 20.0, 10.0, size)
    in_time, _, refused, shed = (sum(ended[end, key] for key in range(1_000)) for end in ENDS)
    assert in_time > 0.95 * 10.0 / BATCH
    assert refused > 0.8 * shed


def test_a_key_whose_jobs_fill_a_batch_is_let_in_before_others() -> None:
    """Its batch is worth more with each of them, and takes no more of the worker."""
    keys: list[Hashable] = ["busy"] * 32 + list(range(500))
    ended = told(of_keys(keys[31:]), keys, 20.0, 10.0)
    assert ended["refused", "busy"] == 0
    assert ended["in time", "busy"] > 0.9 * sum(ended[each, "busy"] for each in ENDS)
    assert all(ended["refused", key] for key in range(500))
