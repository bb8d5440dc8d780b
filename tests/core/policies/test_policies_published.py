"""The published policies, each where it shows what it is."""

from collections.abc import Callable, Sequence
from math import inf

import pytest

from adaptive_batching.core import (
    Batch,
    BatchRecord,
    Decision,
    Dispatch,
    Hold,
    Job,
    JobOutcome,
    Limits,
    Outcome,
    Reason,
    Scheduler,
    Shed,
    ShedReason,
    Situation,
    make_policy,
)
from adaptive_batching.core.policies.aimd import AIMD, EndToEndAIMD
from adaptive_batching.core.policies.shed_first import ShedFirst
from adaptive_batching.core.policies.triton import Triton
from adaptive_batching.errors import PolicyError
from adaptive_batching.simulation import Server, poisson
from adaptive_batching.simulation.kernel.engine import History, simulate
from tests.core.steps import released
from tests.odd_exceptions import of_an_odd_kind


def fitted(policy: object, workers: int = 1, **limits: float) -> Scheduler:
    """A scheduler that knows that batches take 50 ms + 10 ms per item."""
    scheduler = Scheduler(make_policy(policy), Limits(**limits), workers)  # type: ignore[arg-type]
    latency = scheduler.latency
    latency.fixed, latency.per_item, latency.largest = 0.05, 0.01, 8.0
    latency.batches, latency.trusted = 9, True
    return scheduler


def submit(scheduler: Scheduler, *deadlines: float, now: float = 0.0, size: int = 1) -> list[Job]:
    jobs = [Job(now, size, deadline) for deadline in deadlines]
    for job in jobs:
        scheduler.submit(job)
    return jobs


def shed(step: Batch | Shed | Hold) -> Sequence[Job]:
    assert isinstance(step, Shed)
    assert step.reason is ShedReason.HOPELESS
    return step.jobs


def overload(policy: str, max_latency: float) -> History:
    """Half more than one worker can take, for 2 s; L(64) = 8.2 ms."""
    times = [index / (1.5 * 7800) for index in range(23_400)]
    scheduler = Scheduler(make_policy(policy), Limits(64, max_latency))
    return simulate(times, scheduler, lambda size: 5e-3 + 5e-5 * size)


def goodput(history: History, max_latency: float) -> float:
    """Of those that arrived after the first half second."""
    jobs = [job for job in history.jobs if job.arrived >= 0.5]
    done = (job for job in jobs if job.outcome is JobOutcome.DONE)
    return sum(job.latency <= max_latency for job in done) / len(jobs)


# ----------------------------------------------------------------------------------------- nexus


def test_nexus_gives_up_the_oldest_to_save_the_batch() -> None:
    """Four leave in 90 ms; the head has 80 ms and goes, and three in 80 ms are in time."""
    scheduler = fitted("nexus", max_batch_size=8)
    head, *others = submit(scheduler, 0.079, 0.2, 0.2, 0.2)
    assert shed(scheduler.next(0.0)) == [head]
    assert released(scheduler.next(0.0)).jobs == others


def test_nexus_looks_at_the_earliest_deadlines_first() -> None:
    """Of three, the one that came last can't be in time any more; the others fill the batch."""
    scheduler = fitted("nexus", max_batch_size=2)
    *others, late = submit(scheduler, 0.2, 0.2, 0.05)
    assert shed(scheduler.next(0.0)) == [late]
    assert released(scheduler.next(0.0)).jobs == others


def test_nexus_drops_from_the_middle() -> None:
    """Three would leave in 80 ms; the second has 75 ms, so two leave in 70 ms."""
    scheduler = fitted("nexus", max_batch_size=8)
    first, second, third = submit(scheduler, 0.2, 0.075, 0.2)
    assert shed(scheduler.next(0.0)) == [second]
    assert released(scheduler.next(0.0)).jobs == [first, third]


def test_the_window_shortens_with_the_queue() -> None:
    """Two in 70 ms are too long for the first; with it gone, one in 60 ms is in time."""
    scheduler = fitted("nexus", max_batch_size=8)
    first, second = submit(scheduler, 0.065, 0.065)
    assert shed(scheduler.next(0.0)) == [first]
    assert released(scheduler.next(0.0)).jobs == [second]


@pytest.mark.parametrize("policy", ["nexus", "deferred", "greedy+drop"])
def test_a_hopeless_queue_is_probed_now_and_then(policy: str) -> None:
    """A model that needs 60 ms for one when 30 are promised: one batch in 30 ms all the same."""
    scheduler = fitted(policy)
    submit(scheduler, 1.0)
    batch = released(scheduler.next(0.94))
    scheduler.finish(batch, Outcome.DONE, 1.0)
    submit(scheduler, 1.03, now=1.0)
    assert released(scheduler.next(1.0)).reason is Reason.PROBE
    scheduler = fitted(policy, workers=2)
    submit(scheduler, 1.05)
    released(scheduler.next(0.99))
    (job,) = submit(scheduler, 1.03, now=1.0)
    assert shed(scheduler.next(1.0)) == [job]


@pytest.mark.parametrize("policy", ["nexus", "deferred", "greedy+drop", "aimd+drop"])
def test_dropping_keeps_the_capacity_for_answers_in_time(policy: str) -> None:
    """Two thirds of 1.5 times the capacity could be answered; without dropping, next to nothing."""
    assert goodput(overload(policy, 0.025), 0.025) > 0.62
    assert goodput(overload("greedy", 0.025), 0.025) < 0.05


# -------------------------------------------------------------------------------------- deferred


def test_deferred_releases_when_one_more_would_be_too_many() -> None:
    """Two due at 1 s: three would take 80 ms, and a wake-up may be 1.5 ms late, so at 0.9185 s."""
    scheduler = fitted("deferred", max_batch_size=8)
    submit(scheduler, 1.0, 1.0)
    hold = scheduler.next(0.0)
    assert isinstance(hold, Hold)
    assert hold.until == pytest.approx(0.9185)
    assert released(scheduler.next(hold.until)).reason is Reason.DEADLINE


def test_deferred_goes_by_the_earliest_deadline() -> None:
    """The second is due before the first."""
    scheduler = fitted("deferred", max_batch_size=8)
    submit(scheduler, 2.0, 1.0)
    hold = scheduler.next(0.0)
    assert isinstance(hold, Hold)
    assert hold.until == pytest.approx(0.9185)


def test_deferred_reckons_with_late_wake_ups() -> None:
    """Where batches of all sizes take as long, a job would be shed if its wake-up were late."""
    scheduler = Scheduler(make_policy("deferred"), Limits(64, 50e-3))
    arrivals = poisson(20.0, 10.0, seed=1).tolist()
    jobs = simulate(arrivals, scheduler, Server(5e-3, 0.0).service(), loop_delay=1e-6).jobs
    assert sum(job.outcome is JobOutcome.SHED for job in jobs) < 0.05 * len(jobs)


def test_deferred_does_not_defer_a_full_batch() -> None:
    """It can't grow."""
    scheduler = fitted("deferred", max_batch_size=2)
    submit(scheduler, 1.0, 1.0, 1.0)
    assert released(scheduler.next(0.0)).reason is Reason.FULL


def test_deferred_without_a_promise_or_a_fit() -> None:
    """With nothing to defer to, or nothing known, it is greedy."""
    scheduler = fitted("deferred")
    submit(scheduler, inf)
    assert released(scheduler.next(0.0)).reason is Reason.IDLE
    unfitted = Scheduler(make_policy("deferred"), Limits())
    submit(unfitted, 1.0)
    assert released(unfitted.next(0.0)).reason is Reason.IDLE


# -------------------------------------------------------------------------------------- dropping


def test_drop_sheds_who_would_be_late_and_asks_the_other_policy() -> None:
    """Behind a window of 1 s: the head can't make 50 ms, the next waits its second."""
    scheduler = fitted("window:1s+drop", max_batch_size=8)
    head, _ = submit(scheduler, 0.05, 9.0)
    assert shed(scheduler.next(0.0)) == [head]
    assert scheduler.next(0.0) == Hold(1.0)


def test_drop_trusts_no_fit_of_a_few_batches() -> None:
    """One slow batch at the start refuses nobody."""
    scheduler = Scheduler(make_policy("greedy+drop"), Limits())
    scheduler.latency.observe(1, 3.0)
    submit(scheduler, 0.05)
    assert released(scheduler.next(0.0)).reason is Reason.IDLE


def test_drop_passes_on_what_happened() -> None:
    """The other policy learns: AIMD grows by its step."""
    policy = AIMD(4.0)
    scheduler = Scheduler(ShedFirst(policy), Limits())
    submit(scheduler, inf)
    scheduler.finish(released(scheduler.next(0.0)), Outcome.DONE, 0.1)
    assert policy.size == 5.0


# ------------------------------------------------------------------------------------------ aimd


@pytest.mark.parametrize(("policy", "size"), [(AIMD(), 2.0), (EndToEndAIMD(), 1.0)])
def test_aimd_measures_the_batch_or_the_whole_way(policy: AIMD, size: float) -> None:
    """0.1 s in the queue and 50 ms in the batch, for an objective of 100 ms on the one or other."""
    scheduler = Scheduler(policy, Limits(max_latency=0.1))
    submit(scheduler, inf)
    scheduler.finish(released(scheduler.next(0.1)), Outcome.DONE, 0.15)
    assert policy.size == size


def test_aimd_end_to_end_ends_with_batches_of_one() -> None:
    """Under load that it could carry in batches of 64, it makes a queue and answers it too late."""
    times = [index / 6200 for index in range(18_600)]
    ends = {}
    for name in ("aimd", "aimd:e2e"):
        scheduler = Scheduler(make_policy(name), Limits(64, 0.025))
        history = simulate(times, scheduler, lambda size: 5e-3 + 5e-5 * size)
        ends[name] = (goodput(history, 0.025), history.batches[-1].size)
    assert ends["aimd"][0] > 0.95
    assert ends["aimd:e2e"][0] < 0.1
    assert ends["aimd:e2e"][1] == 1


# ---------------------------------------------------------------------------------------- triton


@pytest.mark.parametrize(
    ("waiting", "size", "reason"),
    [
        (4, 4, Reason.PREFERRED),
        (7, 4, Reason.PREFERRED),
        (8, 8, Reason.PREFERRED),
        (30, 8, Reason.PREFERRED),
    ],
)
def test_triton_releases_the_largest_preferred_size(
    waiting: int, size: int, reason: Reason
) -> None:
    """At once, and the rest of the queue stays."""
    scheduler = fitted("triton:4,8/1s", max_batch_size=16)
    submit(scheduler, *[inf] * waiting)
    batch = released(scheduler.next(0.0))
    assert (batch.size, batch.reason) == (size, reason)


def test_triton_waits_for_a_preferred_size_as_long_as_the_delay() -> None:
    """Then whatever waits leaves."""
    scheduler = fitted("triton:4,8/1s", max_batch_size=16)
    submit(scheduler, *[inf] * 3)
    assert scheduler.next(0.5) == Hold(1.0)
    batch = released(scheduler.next(1.0))
    assert (batch.size, batch.reason) == (3, Reason.TIMEOUT)


def test_triton_without_a_delay_never_waits() -> None:
    """A preferred size if there is one, or what there is."""
    scheduler = fitted("triton:4,8", max_batch_size=16, workers=2)
    submit(scheduler, *[inf] * 7)
    assert [released(scheduler.next(0.0)).size for _ in range(2)] == [4, 3]


def test_triton_does_not_wait_for_what_can_not_come() -> None:
    """Past the largest preferred size, or with a next job that does not fit."""
    scheduler = fitted("triton:4/1s", max_batch_size=16)
    submit(scheduler, inf, inf, size=3)
    assert released(scheduler.next(0.0)).size == 6
    scheduler = fitted("triton:8/1s", max_batch_size=8)
    submit(scheduler, inf, inf, size=5)
    assert released(scheduler.next(0.0)).size == 5


def test_triton_takes_sizes_in_any_order() -> None:
    """A size above the limit is never reached and does no harm."""
    assert Triton([8, 4, 4]).preferred == {4, 8}
    scheduler = fitted("triton:4,64/1s", max_batch_size=6)
    submit(scheduler, *[inf] * 9)
    assert released(scheduler.next(0.0)).size == 4


@pytest.mark.parametrize(("sizes", "delay"), [([], 0.0), ([0], 0.0), ([4], -1.0)])
def test_triton_with_impossible_numbers(sizes: list[int], delay: float) -> None:
    """They are named with what was expected."""
    with pytest.raises(ValueError, match="triton: expected"):
        Triton(sizes, delay)


# -------------------------------------------------------------------------------------- watchers


class Impatient:
    """VirtualTimeHeap everybody away while every worker is busy."""

    def __init__(self, answer: Callable[[Situation], Decision]) -> None:
        self.answer = answer

    def decide(self, situation: Situation) -> Decision:
        return Dispatch(1, Reason.IDLE)

    def watch(self, situation: Situation) -> Decision:
        return self.answer(situation)

    def observe(self, batch: BatchRecord) -> None:
        pass


def test_a_watcher_is_asked_while_every_worker_is_busy() -> None:
    """It may shed and hold; when the scheduler drains nobody is turned away any more."""
    scheduler = Scheduler(
        Impatient(lambda queue: Shed([queue.newest], ShedReason.HOPELESS)), Limits()
    )
    first, second, third = submit(scheduler, inf, inf, inf)
    assert released(scheduler.next(0.0)).jobs == [first]
    assert shed(scheduler.next(0.0)) == [third]
    scheduler.drain()
    assert scheduler.next(0.0) == Hold(inf)
    assert second.waiting


def test_a_watcher_may_not_dispatch() -> None:
    """There is nobody to take it."""
    scheduler = Scheduler(Impatient(lambda _: Dispatch(1, Reason.IDLE)), Limits())
    submit(scheduler, inf, inf)
    scheduler.next(0.0)
    expected = r"Impatient\.watch: expected Hold or Shed while every worker is busy"
    with pytest.raises(PolicyError, match=expected):
        scheduler.next(0.0)


@pytest.mark.parametrize(
    ("error", "said"),
    [(ZeroDivisionError("oh"), "ZeroDivisionError: oh"), (of_an_odd_kind("oh"), "OfAnOddKind: oh")],
)
def test_a_watcher_that_raises(error: Exception, said: str) -> None:
    """The error names the policy and the method, whatever can be asked of what it raised."""

    def fail(queue: Situation) -> Decision:
        raise error

    scheduler = Scheduler(Impatient(fail), Limits())
    submit(scheduler, inf, inf)
    scheduler.next(0.0)
    with pytest.raises(PolicyError, match=rf"Impatient\.watch raised .*{said}"):
        scheduler.next(0.0)


def test_the_newest_is_the_last_that_still_waits() -> None:
    """A cancelled one does not count."""
    scheduler = fitted("greedy", workers=0)
    first, second = submit(scheduler, inf, inf)
    view = scheduler._queues.views[None]
    assert view.queue.newest is second
    scheduler.cancel(second)
    assert view.queue.newest is first
