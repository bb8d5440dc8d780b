"""What a scheduler tells those who look on."""

from math import inf

import pytest

from adaptive_batching.core import (
    Batch,
    Job,
    Limits,
    Load,
    Outcome,
    Scheduler,
    Shed,
    make_policy,
)
from adaptive_batching.errors import Overloaded
from tests.core.steps import released, submit

FULL = 5e-3 + 64 * 5e-5


def scheduler(workers: int = 2, policy: str = "window:1s") -> Scheduler:
    """It knows that batches take 5 ms and 0.05 ms an item."""
    made = Scheduler(make_policy(policy), Limits(64, inf), workers, idempotent=True)
    for size in [1, 8, 64] * 60:
        made.latency.observe(size, 5e-3 + 5e-5 * size)
    return made


def test_nothing_waits() -> None:
    """All is 0, also before anything is known."""
    assert Load.of(scheduler(), 1.0) == (0, 0.0, 0.0, 0.0)
    assert Load.of(Scheduler(make_policy("cork"), Limits(), 0), 1.0) == (0, 0.0, 0.0, 0.0)


def test_work_is_shared_by_the_workers() -> None:
    """A hundred items of two keys: one full batch and its rest as even halves, and one of 30."""
    waiting = scheduler(workers=2)
    submit(waiting, 70, 0.0)
    for _ in range(30):
        waiting.submit(Job(0.5, key="other"))
    load = Load.of(waiting, 0.75)
    assert (load.requests, load.oldest) == (100, 0.75)
    by_hand = 2 * (5e-3 + 35 * 5e-5) + 5e-3 + 30 * 5e-5
    assert load.work == pytest.approx(by_hand / 2, rel=0.02)


def test_who_runs_again_is_counted() -> None:
    """The members of a batch that failed wait too, and have waited longest."""
    waiting = scheduler(policy="greedy")
    jobs = submit(waiting, 2, 0.0)
    batch = released(waiting.next(0.0))
    waiting.finish(batch, Outcome.FAILED, 0.1, jobs)
    submit(waiting, 1, 0.2)
    load = Load.of(waiting, 0.5)
    assert (load.requests, load.oldest) == (3, 0.5)
    assert load.work == pytest.approx(3 * 5.05e-3 / 2, rel=0.02)


@pytest.mark.parametrize("load", [0.5, 2.0])
def test_saturation_is_what_comes_by_what_can_be_done(load: float) -> None:
    """At half and at twice of what two workers can do in full batches, refusals or not."""
    busy = scheduler(workers=2, policy="greedy")
    gap = FULL / 64 / 2 / load
    for number in range(20_000):
        now = number * gap
        busy.submit(Job(now))
        while isinstance(batch := busy.next(now), Batch):
            busy.finish(batch, Outcome.FAILED, now)  # nothing is learned, and nobody is busy
    assert Load.of(busy, now).saturation == pytest.approx(load, rel=0.1)
    assert Load.of(busy, now + 100.0).saturation == pytest.approx(0.0, abs=1e-9)


def test_refused_jobs_count_in_the_saturation() -> None:
    """At three times what a worker can do, most jobs are refused, and it is still three times."""
    busy = Scheduler(make_policy("cork"), Limits(64, 3 * FULL))
    for size in [1, 8, 64] * 60:
        busy.latency.observe(size, 5e-3 + 5e-5 * size)
    gap, now, refused, running = FULL / 64 / 3, 0.0, 0, None
    for number in range(40_000):
        now = number * gap
        if running is not None and now >= running.released + FULL:
            busy.finish(running, Outcome.FAILED, now)  # nothing is learned
            running = None
        try:
            busy.submit(Job(now, deadline=now + 3 * FULL))
        except Overloaded:
            refused += 1
        while isinstance(step := busy.next(now), Batch | Shed):
            running = step if isinstance(step, Batch) else running
    assert refused > 20_000
    assert Load.of(busy, now).saturation == pytest.approx(3.0, rel=0.1)


def test_batches_end_at_the_knee() -> None:
    """Where more than 16 items take longer each, 64 are four batches, and half of the work more."""
    waiting = scheduler(workers=1)
    submit(waiting, 64, 0.0)
    waiting.queues[None].digest(0.0)
    whole = Load.of(waiting, 0.0)
    waiting.latency.peak.limit = 16
    parts = Load.of(waiting, 0.0)
    assert whole.work == pytest.approx(FULL, rel=0.02)
    assert parts.work == pytest.approx(4 * (5e-3 + 16 * 5e-5), rel=0.02)
    assert whole.saturation > 0
    assert parts.saturation == pytest.approx(whole.saturation * parts.work / whole.work)
