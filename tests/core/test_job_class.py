"""Several models before the same workers: one scheduler, but each has its own limits and line."""

from math import inf

import pytest

from adaptive_batching.core import (
    Hold,
    Job,
    JobClass,
    Limits,
    Outcome,
    Scheduler,
    make_policy,
)
from adaptive_batching.errors import JobTooLarge, QueueFull
from tests.core.steps import released


def scheduler_of(workers: int = 1, **classes: JobClass) -> Scheduler:
    return Scheduler(make_policy("greedy"), Limits(64), workers, classes=classes)


def submit(scheduler: Scheduler, key: str, count: int, now: float, deadline: float = inf) -> None:
    for _ in range(count):
        scheduler.submit(Job(now, deadline=deadline, key=key))


def run(scheduler: Scheduler, key: str, size: int, duration: float, now: float) -> None:
    submit(scheduler, key, size, now)
    batch = released(scheduler.next(now))
    assert (batch.key, batch.size) == (key, size)
    scheduler.finish(batch, Outcome.DONE, now + duration)


def test_batches_are_as_large_as_their_own_class_allows() -> None:
    """A large model takes two, a small one three of the four that wait."""
    scheduler = scheduler_of(3, large=JobClass(Limits(2)), small=JobClass(Limits(3)))
    submit(scheduler, "large", 4, 0.0)
    submit(scheduler, "small", 4, 0.0)
    batches = [released(scheduler.next(0.0)) for _ in range(3)]
    assert [(batch.key, batch.size) for batch in batches] == [
        ("large", 2),
        ("large", 2),
        ("small", 3),
    ]
    with pytest.raises(JobTooLarge, match="max_batch_size=2 items, got 3"):
        scheduler.submit(Job(0.0, 3, key="large"))


def test_what_one_takes_says_nothing_about_the_other() -> None:
    """A slow model and a fast one take turns; each is predicted by its own batches."""
    scheduler = scheduler_of(slow=JobClass(Limits(8)), fast=JobClass(Limits(8)))
    for turn in range(40):
        size = 1 + turn % 8
        run(scheduler, "slow", size, 0.1 + 0.01 * size, 2.0 * turn)
        run(scheduler, "fast", size, 0.001 + 0.0001 * size, 2.0 * turn + 1.0)
    assert scheduler.line("slow").predict(8) == pytest.approx(0.18, rel=0.05)
    assert scheduler.line("fast").predict(8) == pytest.approx(0.0018, rel=0.05)
    submit(scheduler, "fast", 8, 100.0)
    assert released(scheduler.next(100.0)).predicted == pytest.approx(0.0018, rel=0.05)


def test_a_slow_worker_is_slow_for_every_class() -> None:
    """It takes twice as long for both; so it is known after a few batches of either."""
    scheduler = scheduler_of(2, a=JobClass(Limits(8)), b=JobClass(Limits(8)))
    durations = {"a": 0.1, "b": 0.001}
    for turn in range(60):
        key = "ab"[turn // 2 % 2]
        submit(scheduler, key, 16, float(turn))
        for batch in [released(scheduler.next(float(turn))) for _ in range(2)]:
            duration = durations[key] * (1 + batch.worker)
            scheduler.finish(batch, Outcome.DONE, turn + duration)
    fast, slow = scheduler.permits.workers
    assert slow.latency.factor / fast.latency.factor == pytest.approx(2.0, rel=0.1)
    assert scheduler.line("b").predict(8) == pytest.approx(0.001, rel=0.1)


def test_deadlines_are_compared_across_classes() -> None:
    """When the worker is free, who is due first goes, whoever came first."""
    scheduler = scheduler_of(a=JobClass(Limits(8)), b=JobClass(Limits(8)))
    submit(scheduler, "a", 1, 0.0)
    running = released(scheduler.next(0.0))
    submit(scheduler, "a", 1, 0.1, deadline=9.0)
    submit(scheduler, "b", 1, 0.2, deadline=2.0)
    assert isinstance(scheduler.next(0.2), Hold)
    scheduler.finish(running, Outcome.DONE, 0.5)
    assert released(scheduler.next(0.5)).key == "b"


def test_a_class_fills_its_own_queue_only() -> None:
    """The flood before one model leaves the other's door open."""
    scheduler = scheduler_of(a=JobClass(Limits(2, max_queue=2)), b=JobClass(Limits(2, max_queue=2)))
    submit(scheduler, "a", 1, 0.0)
    scheduler.next(0.0)
    submit(scheduler, "a", 2, 0.0)
    with pytest.raises(QueueFull, match="2 of max_queue=2"):
        scheduler.submit(Job(0.0, key="a"))
    submit(scheduler, "b", 2, 0.0)
    assert (scheduler.queued("a"), scheduler.queued("b"), scheduler.queued("c")) == (2, 2, 0)


@pytest.mark.parametrize("idempotent", [True, False])
def test_whether_a_batch_may_run_again_is_a_matter_of_its_class(*, idempotent: bool) -> None:
    """Two that failed together run again alone, if running them twice does no harm."""
    scheduler = scheduler_of(a=JobClass(Limits(2), idempotent=idempotent))
    submit(scheduler, "a", 2, 0.0)
    batch = released(scheduler.next(0.0))
    verdicts = scheduler.finish(batch, Outcome.FAILED, 1.0, batch.jobs).verdicts
    assert bool(verdicts) is idempotent


def test_a_class_of_which_nothing_is_known_when_not_all_can_be_in_time() -> None:
    """Its batch is worth what one of any class is: of two, the larger one goes first."""
    limits = Limits(4, 0.2)
    known, strange = JobClass(limits), JobClass(limits)
    scheduler = Scheduler(make_policy("cork"), limits, classes={"known": known, "strange": strange})
    for turn in range(10):
        run(scheduler, "known", 1 + turn % 4, 0.05, float(turn))
    submit(scheduler, "known", 1, 20.0, 20.2)
    busy = released(scheduler.next(20.0))
    submit(scheduler, "known", 2, 20.04, 20.106)
    submit(scheduler, "strange", 3, 20.04, 20.106)
    scheduler.finish(busy, Outcome.DONE, 20.05)
    assert released(scheduler.next(20.05)).key == "strange"


def test_a_class_whose_batches_take_no_time_by_the_clock() -> None:
    """It goes first where not all can be in time: nobody is put off by it."""
    limits = Limits(4, 0.2)
    known, brief = JobClass(limits), JobClass(limits)
    scheduler = Scheduler(make_policy("cork"), limits, classes={"known": known, "brief": brief})
    for turn in range(20):
        run(scheduler, "known", 4, 0.05, 2.0 * turn)
    run(scheduler, "brief", 4, 0.0, 50.0)
    submit(scheduler, "known", 1, 60.0, 60.2)
    busy = released(scheduler.next(60.0))
    submit(scheduler, "known", 3, 60.04, 60.104)
    submit(scheduler, "brief", 3, 60.04, 60.104)
    scheduler.finish(busy, Outcome.DONE, 60.05)
    assert released(scheduler.next(60.05)).key == "brief"
