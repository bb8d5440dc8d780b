"""The scheduler told as stories: submit, ask what next, finish."""

from math import inf
from typing import Any, cast

import pytest

from adaptive_batching.core import (
    BatchRecord,
    BoundedKey,
    Decision,
    Dispatch,
    Hold,
    Job,
    JobClass,
    Limits,
    Outcome,
    Reason,
    Scheduler,
    Shed,
    ShedReason,
    Situation,
    Welcome,
    make_policy,
)
from adaptive_batching.core.queues.key_queue import KeyQueue
from adaptive_batching.errors import Draining, JobTooLarge, Overloaded, PolicyError, QueueFull
from tests.core.steps import released


def scheduler_with(policy: object = "greedy", workers: int = 1, **limits: float) -> Scheduler:
    return Scheduler(make_policy(policy), Limits(**limits), workers)  # type: ignore[arg-type]


def submit(scheduler: Scheduler, count: int, now: float = 0.0, **options: object) -> list[Job]:
    jobs = [Job(now, **options) for _ in range(count)]  # type: ignore[arg-type]
    for job in jobs:
        scheduler.submit(job)
    return jobs


def test_nothing_to_do() -> None:
    """An empty scheduler waits for an event."""
    assert scheduler_with().next(0.0) == Hold(inf)


def test_a_batch_is_never_larger_than_the_limit() -> None:
    """Five jobs with room for three leave as three and, when the worker is free again, two."""
    scheduler = scheduler_with(max_batch_size=3)
    jobs = submit(scheduler, 5)
    first = released(scheduler.next(0.0))
    assert (first.jobs, first.reason) == (jobs[:3], Reason.FULL)
    assert scheduler.next(0.0) == Hold(inf)
    record = scheduler.finish(first, Outcome.DONE, 0.5).record
    assert (record.duration, record.left_waiting) == (0.5, 2)
    assert released(scheduler.next(0.5)).jobs == jobs[3:]


def test_the_limit_counts_items() -> None:
    """Two jobs of two items do not fit into a batch of three."""
    scheduler = scheduler_with(max_batch_size=3)
    submit(scheduler, 2, size=2)
    assert released(scheduler.next(0.0)).size == 2


def test_a_job_larger_than_any_batch_is_refused() -> None:
    """It would wait for ever; the message gives expected and got."""
    with pytest.raises(JobTooLarge, match="at most max_batch_size=3 items, got 4"):
        submit(scheduler_with(max_batch_size=3), 1, size=4)


def test_a_job_larger_than_the_queue_is_refused_for_ever() -> None:
    """Where fewer items may wait than a batch may hold: to come again would be in vain."""
    with pytest.raises(JobTooLarge, match="at most max_queue=2 items, got 3"):
        submit(scheduler_with(max_queue=2), 1, size=3)


def test_a_full_queue_refuses() -> None:
    """P8: no more items wait than max_queue allows."""
    scheduler = scheduler_with(max_queue=2)
    submit(scheduler, 2)
    with pytest.raises(QueueFull, match="2 of max_queue=2"):
        submit(scheduler, 1)
    assert scheduler.items == 2


def test_keys_never_mix_and_the_most_urgent_goes_first() -> None:
    """Jobs of two keys leave in two batches, the earlier deadline first."""
    scheduler = scheduler_with(workers=2)
    submit(scheduler, 2, key="a", deadline=9.0)
    submit(scheduler, 2, key="b", deadline=5.0)
    assert [released(scheduler.next(0.0)).key for _ in range(2)] == ["b", "a"]


def test_without_deadlines_no_key_starves_another() -> None:
    """Who has waited longest goes first, whichever key was there first and however busy it is."""
    scheduler = scheduler_with(max_batch_size=2)
    submit(scheduler, 2, now=0.0, key="busy")
    running = released(scheduler.next(0.0))
    submit(scheduler, 1, now=0.5, key="quiet")
    submit(scheduler, 2, now=0.7, key="busy")
    left = []
    for now in (1.0, 2.0):
        scheduler.finish(running, Outcome.DONE, now)
        running = released(scheduler.next(now))
        left.append(running.key)
        submit(scheduler, 2, now=now, key="busy")
    assert left == ["quiet", "busy"]


def test_emptied_queues_of_many_keys_are_forgotten() -> None:
    """A key for every client does not fill the memory."""
    scheduler = scheduler_with()
    for key in range(2000):
        (job,) = submit(scheduler, 1, key=key)
        scheduler.cancel(job)
    assert len(scheduler._queues.views) <= 1025


def test_the_expired_leave_even_when_every_worker_is_busy() -> None:
    """P6: a job whose deadline has come is handed back at that instant and never dispatched."""
    scheduler = scheduler_with()
    submit(scheduler, 1)
    released(scheduler.next(0.0))
    jobs = submit(scheduler, 2, deadline=1.0)
    assert scheduler.next(0.5) == Hold(1.0)
    assert scheduler.next(1.0) == Shed(jobs, ShedReason.EXPIRED)
    assert scheduler.items == 0


def test_cancelled_jobs_leave_no_trace() -> None:
    """A cancelled job makes room at once, and cancelling twice says so."""
    scheduler = scheduler_with(max_queue=2)
    first, second = submit(scheduler, 2)
    assert scheduler.cancel(first)
    assert not scheduler.cancel(first)
    assert released(scheduler.next(0.0)).jobs == [second]
    assert not scheduler.cancel(second)


def test_a_dead_worker_takes_its_permit_along() -> None:
    """With no worker alive nothing leaves; with one back it does."""
    scheduler = scheduler_with(workers=0)
    submit(scheduler, 1)
    assert scheduler.next(0.0) == Hold(inf)
    scheduler.permits.set_alive([0])
    released(scheduler.next(0.0))


def test_draining_releases_at_once_and_lets_nobody_in() -> None:
    """What a policy would hold leaves when the scheduler drains."""
    scheduler = scheduler_with("window:1s")
    submit(scheduler, 1)
    assert scheduler.next(0.0) == Hold(1.0)
    scheduler.drain()
    assert released(scheduler.next(0.0)).reason is Reason.DRAIN
    with pytest.raises(Draining):
        submit(scheduler, 1)


def test_only_batches_that_ran_teach() -> None:
    """A failed batch says nothing about latency."""
    scheduler = scheduler_with()
    submit(scheduler, 1)
    scheduler.finish(released(scheduler.next(0.0)), Outcome.FAILED, 9.0)
    assert scheduler.latency.batches == 0


class _Answers:
    """A policy that gives one fixed answer."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def decide(self, situation: Situation) -> object:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer(situation) if callable(self.answer) else self.answer

    def observe(self, batch: BatchRecord) -> None:
        if isinstance(self.answer, Exception):
            raise self.answer


class Watching:
    """Releases what waits, and keeps how many callers it was told to expect after an answer."""

    def __init__(self) -> None:
        self._greedy, self.expected = make_policy("greedy"), 0.0

    def decide(self, at: Situation) -> Decision:
        self.expected = at.arrivals.clump.whole
        return self._greedy.decide(at)

    def observe(self, record: BatchRecord) -> None:
        self._greedy.observe(record)


def test_callers_of_a_failed_batch_come_again() -> None:
    """They are answered with its error, so as many are expected as after any other."""
    policy, now = Watching(), 0.0
    scheduler = Scheduler(policy, Limits(64))
    for cycle in range(150):
        submit(scheduler, 8, now + 1e-3)
        batch = released(scheduler.next(now + 1e-3))
        now += 6.6e-3
        failed = cycle >= 50
        outcome = Outcome.FAILED if failed else Outcome.DONE
        scheduler.finish(batch, outcome, now, batch.jobs if failed else ())
    assert policy.expected == pytest.approx(8.0, rel=0.2)


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (Hold(1.0), "expected a Hold.until later than now"),
        (Hold(float("nan")), "expected a Hold.until later than now"),
        (Dispatch(0, Reason.IDLE), "expected a Dispatch of at least the head's 2 items"),
        (Shed([], ShedReason.HOPELESS), "expected a Shed of at least one job"),
        (Shed([Job(0.0)], ShedReason.HOPELESS), "expected a Shed of waiting jobs"),
        (lambda queue: Shed([queue.head, Job(0.0)], ShedReason.HOPELESS), "a Shed of waiting jobs"),
        (lambda queue: Shed([queue.head] * 2, ShedReason.HOPELESS), "waiting jobs, each once"),
        (lambda queue: Shed(queue.head, ShedReason.HOPELESS), "Shed.jobs: expected a list of jobs"),
        (lambda queue: Shed(iter(queue.jobs), ShedReason.HOPELESS), "Shed.jobs: .* got <generator"),
        (lambda queue: Shed([1], ShedReason.HOPELESS), r"Shed.jobs: .*, got \[1\]"),
        (
            lambda queue: Shed([queue.head], "late"),
            "Shed.reason: expected a ShedReason, got 'late'",
        ),
        (lambda _: Dispatch(None, Reason.IDLE), "Dispatch.size: expected a whole number of items"),
        (lambda _: Dispatch(float("nan"), Reason.IDLE), "Dispatch.size: .*, got nan"),
        (lambda _: Dispatch(2, "idle"), "Dispatch.reason: expected a Reason, got 'idle'"),
        (lambda _: Hold("soon"), "Hold.until: expected seconds, got 'soon'"),
        (None, "expected Dispatch, Hold or Shed, got None"),
        (ZeroDivisionError("oh"), "decide raised ZeroDivisionError"),
    ],
)
def test_a_policy_is_told_its_mistakes_by_name(answer: object, complaint: str) -> None:
    """An impossible decision is an error that names the policy, not a hang."""
    scheduler = scheduler_with(_Answers(answer))
    jobs = submit(scheduler, 1, now=1.0, size=2)
    with pytest.raises(PolicyError, match=f"_Answers.*{complaint}"):
        scheduler.next(1.0)
    assert scheduler.abandon() == jobs  # nobody was taken out who can't be told any more


class _Doorkeeper(_Answers):
    """Lets everyone wait who gets past `refuse`, which gives one fixed answer."""

    def decide(self, situation: Situation) -> Hold:
        return Hold()

    def refuse(self, situation: Situation, job: Job) -> Any:
        return super().decide(situation)


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (False, "refuse: expected None or seconds, got False"),
        ("no", "refuse: expected None or seconds, got 'no'"),
        (float("nan"), "refuse: expected 0 seconds or more, got nan"),
        (-1, "refuse: expected 0 seconds or more, got -1"),
        (10**400, "refuse: expected seconds that fit into a float"),
        (ZeroDivisionError("oh"), "refuse raised ZeroDivisionError"),
    ],
)
def test_a_doorkeeper_is_told_its_mistakes_by_name(answer: object, complaint: str) -> None:
    """A caller whom it can neither let in nor refuse learns whose fault that is."""
    scheduler = scheduler_with(_Doorkeeper(answer))
    with pytest.raises(PolicyError, match=f"_Doorkeeper.{complaint}"):
        submit(scheduler, 1, deadline=1.0)
    assert scheduler.items == 0


class _Host(_Doorkeeper):
    """Knows which jobs are welcome, or fails to; refuses all others, and releases what waits."""

    def __init__(self, welcome: object) -> None:
        super().__init__(3.0)
        self._welcome, self.asked = welcome, 0

    def decide(self, situation: Situation) -> Dispatch:  # type: ignore[override]
        return Dispatch(situation.items, Reason.IDLE)

    def welcome(self, queue: KeyQueue) -> Welcome:
        self.asked += 1
        if isinstance(self._welcome, Exception):
            raise self._welcome
        return cast("Welcome", self._welcome)


@pytest.mark.parametrize("job", [Job(5.0, 2, 9.0), Job(6.0, 1, 9.0), Job(5.0, 1, 8.0)])
def test_a_job_that_is_welcome_is_not_asked_about(job: Job) -> None:
    """Only one that is too large, too late or in too much of a hurry is refused."""
    scheduler = scheduler_with(_Host(Welcome(3, 9.0, 5.0)))
    submit(scheduler, 2, deadline=9.0)
    with pytest.raises(Overloaded):
        scheduler.submit(job)
    scheduler.submit(Job(5.0, 1, 9.0))
    assert scheduler.items == 3


def test_which_jobs_are_welcome_is_asked_anew_when_a_batch_has_left_or_ended() -> None:
    """Or when the policy, the limits or the workers are others: until then it holds."""
    host = _Host(Welcome(inf))
    scheduler = scheduler_with(host)
    submit(scheduler, 3, deadline=9.0)
    assert host.asked == 1
    batch = released(scheduler.next(0.0))
    submit(scheduler, 3, deadline=9.0)
    assert host.asked == 2
    scheduler.finish(batch, Outcome.DONE, 1.0)
    submit(scheduler, 3, deadline=9.0)
    assert host.asked == 3
    scheduler.permits.set_alive([0, 1])
    submit(scheduler, 3, deadline=9.0)
    assert host.asked == 4
    scheduler.rehearse([(0, 1, 0.1, 0.0)])
    submit(scheduler, 3, deadline=9.0)
    assert host.asked == 5
    scheduler.retune(another := _Host(Welcome(inf)), Limits())
    submit(scheduler, 3, deadline=9.0)
    assert (host.asked, another.asked) == (5, 1)


def test_which_jobs_are_welcome_is_asked_anew_under_other_limits() -> None:
    """Those of their class."""
    host, key = _Host(Welcome(inf)), "class"
    scheduler = Scheduler(host, Limits(), classes={key: JobClass(Limits(4))})
    submit(scheduler, 3, deadline=9.0, key=key)
    scheduler.retune_class(key, Limits(8))
    submit(scheduler, 3, deadline=9.0, key=key)
    assert host.asked == 2


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (ZeroDivisionError("oh"), "raised ZeroDivisionError"),
        (3, ": expected a Welcome of numbers, got 3"),
        (Welcome(cast("float", None)), ": expected a Welcome of numbers, got Welcome"),
    ],
)
def test_a_host_is_told_its_mistakes_by_name(answer: object, complaint: str) -> None:
    """The error says which method failed."""
    with pytest.raises(PolicyError, match=f"_Host.welcome ?{complaint}"):
        submit(scheduler_with(_Host(answer)), 1, deadline=1.0)


def test_its_repr_shows_the_live_numbers() -> None:
    """Logs and people read the state off it."""
    scheduler = scheduler_with(workers=4)
    submit(scheduler, 3)
    assert "queued=3 idle=4/4" in repr(scheduler)


def test_other_limits_turn_nobody_away() -> None:
    """Who waits is released by the new policy, in batches of the new size; the large one alone."""
    scheduler = scheduler_with("window:1h", max_batch_size=8, max_queue=8)
    large, *small = [Job(0.0, 5), Job(0.0), Job(0.0)]
    for job in (large, *small):
        scheduler.submit(job)
    assert isinstance(scheduler.next(0.0), Hold)
    scheduler.retune(make_policy("greedy"), Limits(max_batch_size=2, max_queue=2))
    with pytest.raises(QueueFull, match="7 of max_queue=2"):
        scheduler.submit(Job(0.0))
    with pytest.raises(JobTooLarge, match="max_batch_size=2"):
        scheduler.submit(Job(0.0, 3))
    first = released(scheduler.next(0.0))
    scheduler.finish(first, Outcome.DONE, 1.0)
    assert first.jobs == [large]
    assert released(scheduler.next(1.0)).jobs == small


def test_another_policy_may_ask_for_another_order_of_keys() -> None:
    """Queues that wait already are weighed by it, and no more by one that doesn't ask."""
    scheduler = scheduler_with("window:1h", max_batch_size=4)
    for key in "ab":
        submit(scheduler, 2, key=key, deadline=50.0)
    for policy in ("cork", "greedy", "cork"):
        scheduler.retune(make_policy(policy), Limits(max_batch_size=4))
    batch = released(scheduler.next(49.9))
    scheduler.finish(batch, Outcome.DONE, 49.95)
    assert {batch.key, released(scheduler.next(49.95)).key} == {"a", "b"}


def test_a_key_whose_batches_are_smaller() -> None:
    """They stay within its bound, also after a change of the limits; a larger job goes alone."""
    scheduler = scheduler_with(max_batch_size=8)
    key = BoundedKey("m", 3)
    jobs = submit(scheduler, 7, key=key)
    first = released(scheduler.next(0.0))
    assert (first.jobs, first.reason) == (jobs[:3], Reason.FULL)
    scheduler.finish(first, Outcome.DONE, 0.1)
    scheduler.retune(make_policy("greedy"), Limits(max_batch_size=6))
    second = released(scheduler.next(0.1))
    assert second.jobs == jobs[3:6]
    (large,) = submit(scheduler, 1, size=5, key=BoundedKey("n", 2))
    scheduler.finish(second, Outcome.OUT_OF_MEMORY, 0.2)
    third = released(scheduler.next(0.2))
    scheduler.finish(third, Outcome.DONE, 0.3)
    assert [*third.jobs, *released(scheduler.next(0.3)).jobs] == [jobs[6], large]


def test_a_bound_that_is_none() -> None:
    """Where the limits allow for less than a key, they hold; without a bound they hold alone."""
    scheduler = scheduler_with(max_batch_size=2)
    submit(scheduler, 3, key=BoundedKey("m", 3))
    assert released(scheduler.next(0.0)).size == 2
