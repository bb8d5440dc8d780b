"""`retry_after` is the time after which a client that comes back alone gets in.

The truth is found by coming back: the same traffic up to the refusal, nobody after it, and one
client who returns after a while. To come back after half of the time that was named is in vain.
"""

from itertools import pairwise
from math import inf
from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from adaptive_batching.core import (
    Batch,
    Hold,
    Job,
    JobOutcome,
    Limits,
    Outcome,
    Policy,
    Reason,
    Scheduler,
    Shed,
    ShedReason,
    make_policy,
)
from adaptive_batching.core.policies.cork.cork import Cork
from adaptive_batching.errors import Overloaded, QueueFull, Refused
from adaptive_batching.simulation import Server, poisson, simulate
from tests.core.steps import released, submit

SERVER = Server(5e-3, 0.05e-3)
CAPACITY = 64 / 8.2e-3  # requests a second and worker
SHED_LESS = 0.02  # of the shortest batch, by which the named time may be too soon


class Noting(Scheduler):
    """Keeps what it said to those whom it refused."""

    def __init__(self, limits: Limits, workers: int, policy: Policy | None = None) -> None:
        super().__init__(Cork() if policy is None else policy, limits, workers)
        self.refusals: dict[float, Refused] = {}
        for size in [1, 8, 32, limits.max_batch_size] * 20:
            self.latency.observe(size, 5e-3 + 0.05e-3 * size)

    def submit(self, job: Job) -> None:
        try:
            super().submit(job)
        except Refused as refused:
            self.refusals[job.arrived] = refused
            raise


class Overload(NamedTuple):
    """Traffic that somebody is refused of."""

    load: float
    seed: int
    workers: int
    limits: Limits

    def refused(self, times: list[float]) -> dict[float, Refused]:
        """Who, and what he was told."""
        scheduler = Noting(self.limits, self.workers)
        simulate(times, scheduler, SERVER.service())
        return scheduler.refusals

    def times(self) -> list[float]:
        """When requests come (seconds)."""
        rate = self.load * CAPACITY * self.workers
        return poisson(rate, 0.06, seed=self.seed).tolist()

    def gets_in(self, times: list[float], again: float) -> bool:
        """Whether one who comes back then is let in."""
        return again not in self.refused([*times, again])

    def shed(self, times: list[float], since: float, until: float) -> int:
        """How many jobs make room in that time without having had their turn."""
        history = simulate(times, Noting(self.limits, self.workers), SERVER.service())
        shed = [job.finished for job in history.jobs if job.outcome is JobOutcome.SHED]
        return sum(since < finished <= until for finished in shed)


overloads = st.builds(
    Overload,
    load=st.floats(1.2, 10),
    seed=st.integers(0, 1000),
    workers=st.sampled_from([1, 1, 2, 4]),
    limits=st.builds(
        Limits,
        max_batch_size=st.just(64),
        # within less than three batches jobs are shed before their turn, and make room sooner
        max_latency=st.sampled_from([0.025, 0.05, 0.1]),
        max_queue=st.sampled_from([65_536, 100]),
    ),
)


@settings(max_examples=15)
@given(overloads, st.floats(0, 1))
@example(Overload(3.8125, 73, 4, Limits(64, 0.05)), 0.25)  # 24 us too soon
def test_who_comes_back_alone_gets_in(overload: Overload, choice: float) -> None:
    """After the time that was named; not after half of it, though nobody else has come since.

    Predictions change meanwhile: one of some hundred draws needs a little longer. Another of them
    has jobs ahead that are shed in that half: then there may be room.
    """
    times = overload.times()
    refusals = overload.refused(times)
    if not refusals:
        return
    refused = sorted(refusals)[int(choice * (len(refusals) - 1))]
    wait = refusals[refused].retry_after
    assert wait > 0
    before = [time for time in times if time <= refused]
    longer = SHED_LESS * SERVER.service()(1)
    assert any(overload.gets_in(before, refused + wait + more) for more in (0.0, longer))
    half = refused + wait / 2
    assert not overload.gets_in(before, half) or overload.shed(before, refused, half)


@pytest.mark.parametrize("workers", [2, 4])
def test_several_workers_have_room_when_the_batches_ahead_have_left(workers: int) -> None:
    """Within 12 ms those ahead are soon late; the client need not wait for what they would take."""
    overload = Overload(2.0, 0, workers, Limits(64, 12e-3))
    waits = [each.retry_after for each in overload.refused(overload.times()).values()]
    full_batch = 5e-3 + 64 * 0.05e-3
    assert 0 < max(waits) < full_batch / 3


@pytest.mark.parametrize("max_latency", [0.025, inf])
def test_a_full_queue_has_room_when_the_next_batch_leaves(max_latency: float) -> None:
    """A hundred wait, of whom 64 leave at the end of the batch that runs: that is when to come."""
    overload = Overload(1.0, 0, 1, Limits(64, max_latency, max_queue=100))
    refusals = overload.refused([0.0, *[1e-3] * 101])
    assert isinstance(refusals[1e-3], QueueFull)
    end = 5e-3 + 0.05e-3
    assert refusals[1e-3].retry_after == pytest.approx(1.05 * (end - 1e-3))


def test_a_burst_on_an_idle_worker_is_refused_in_its_instant() -> None:
    """Of a thousand at once three batches may make it; the others needn't wait to be told."""
    history = simulate([1.0] * 1000, Noting(Limits(64, 0.025), 1), SERVER.service())
    shed = [job for job in history.jobs if job.outcome is JobOutcome.SHED]
    assert len(shed) >= 1000 - 3 * 64
    assert {job.finished for job in shed} == {1.0}


@pytest.mark.parametrize("workers", [1, 2])
def test_who_would_miss_the_batch_of_the_others_comes_back_for_the_next(workers: int) -> None:
    """Ten wait for the worker that is free first; a hasty one needs the batch after that.

    With two workers it leaves when the other one is free. To come back a tenth sooner is in vain.
    """

    def told(coming: float) -> float:
        """The `retry_after` of one who comes then; nothing for one who is let in."""
        scheduler = Noting(Limits(64), workers)
        running = []
        for size, left in [(64, 0.0), (60, 3.8e-3)][:workers]:
            scheduler.submit(Job(left, size))
            running.append(released(scheduler.next(left)))
        submit(scheduler, 10, 4e-3)
        assert isinstance(scheduler.next(4e-3), Hold)
        while running and (ends := running[0].predicted_finish) < coming:
            scheduler.finish(running.pop(0), Outcome.DONE, ends)
            step = scheduler.next(ends)
            running += [step] if isinstance(step, Batch) else []
            running.sort(key=lambda batch: batch.predicted_finish)
        try:
            submit(scheduler, 1, coming, patience=5.3e-3)
        except Overloaded as refused:
            return refused.retry_after
        return 0.0

    wait = told(5e-3)
    assert wait > 0
    assert told(5e-3 + 0.9 * wait) > 0
    assert told(5e-3 + wait) == 0


def test_room_comes_with_batches_that_end_at_the_knee() -> None:
    """A hundred wait and 50 more want to: not one batch of 64 has to leave for them, but three."""
    scheduler = Noting(Limits(64, inf, max_queue=100), 1)
    submit(scheduler, 1, 0.0)
    released(scheduler.next(0.0))
    submit(scheduler, 100, 0.0)
    scheduler.latency.peak.limit = 20
    with pytest.raises(QueueFull) as refused:
        scheduler.submit(Job(0.0, 50))
    full = 5e-3 + 20 * 0.05e-3
    assert refused.value.retry_after == pytest.approx(1.05 * (5.05e-3 + 2 * full), rel=0.02)


def test_a_job_that_is_larger_than_the_knee_takes_as_long_as_it_is() -> None:
    """Alone in its batch, 60 items take 8 ms after the 5 ms of the one that runs, not 5.2."""
    scheduler = Noting(Limits(64), 1)
    submit(scheduler, 1, 0.0)
    released(scheduler.next(0.0))
    scheduler.latency.peak.limit = 4
    with pytest.raises(Overloaded):
        scheduler.submit(Job(0.0, 60, deadline=11e-3))
    scheduler.submit(Job(0.0, 60, deadline=14e-3))


def overdue(limits: Limits, waiting: int) -> Noting:
    """Some wait behind a batch of one item, which should have ended at 5.05 ms and has not."""
    scheduler = Noting(limits, 1)
    submit(scheduler, 1, 0.0)
    released(scheduler.next(0.0))
    for number in range(waiting):
        submit(scheduler, 1, 1e-3 + number * 1e-6, limits.max_latency)
    return scheduler


def obeyed(scheduler: Noting, begin: float, end: float) -> list[float]:
    """When one client sends that comes again as it is told, until it is let in or it is too late.

    After a thousand times it has seen enough.
    """
    sent: list[float] = []
    now = begin
    while now < end and len(sent) < 1000:
        sent.append(now)
        try:
            submit(scheduler, 1, now, scheduler.limits.max_latency)
        except Refused as refused:
            now += refused.retry_after
        else:
            break
    return sent


@pytest.mark.parametrize(
    ("limits", "waiting"),
    [
        pytest.param(Limits(64, 0.013), 64, id="the batch ahead would make it late"),
        pytest.param(Limits(64, 0.0050495), 0, id="late by half a microsecond"),
        pytest.param(Limits(64, inf, max_queue=64), 64, id="no room"),
    ],
)
def test_while_a_worker_hangs_a_client_asks_ever_more_rarely(limits: Limits, waiting: int) -> None:
    """An overdue batch may end now, or never: as it is told, a client asks nine times in a second.

    The shortest batch takes 5.05 ms, and no less than that is named; later, how overdue the batch
    is.
    """
    sent = obeyed(overdue(limits, waiting), 5.1e-3, 1.0)
    waits = [later - earlier for earlier, later in pairwise(sent)]
    assert waits[0] >= 5.05e-3
    assert sorted(waits) == waits
    assert len(sent) <= 9


def test_no_refusal_at_the_door_is_for_no_time() -> None:
    """A burst fills the batch that leaves now; the one behind it is too late, but not for long.

    A client that comes back as it is told gets in.
    """
    patience = 0.012
    scheduler = Noting(Limits(64, patience), 1)
    submit(scheduler, 64, 0.0, patience)
    with pytest.raises(Overloaded) as refused:
        submit(scheduler, 1, 0.0, patience)
    wait = refused.value.retry_after
    assert wait == pytest.approx(1.05 * 1.25e-3, rel=1e-3)
    released(scheduler.next(0.0))
    submit(scheduler, 1, wait, patience)


@pytest.mark.parametrize("start", [1000.0 / 3.0 * number for number in range(1, 40)])
def test_a_release_at_the_last_possible_instant_is_not_told_again(start: float) -> None:
    """Whatever is rounded: a client would come again at once, and be refused again."""
    scheduler = Noting(Limits(64, 1.0), 1)
    submit(scheduler, 1, start, 1.0)
    running = released(scheduler.next(start))
    view = scheduler.queues[None]
    for _ in range(500):  # that have waited for long
        view.queue.append(Job(start - 20.0, deadline=start + 9.0))
    at = view.situation(start + 1e-3)
    full = at.predict(64)
    for batches in range(1, 7):
        job = Job(at.now, deadline=running.predicted_finish + (batches + 1) * full)
        wait = scheduler.policy.refuse(at, job)
        assert wait is not None
        assert wait > 1e-9


@pytest.mark.parametrize("keys", [1, 8])
def test_beside_a_worker_that_hangs_jobs_are_refused(keys: int) -> None:
    """Not at once, for it may be a pause: when the batch has run for twice its predicted duration,
    and then for five times as long as the job can wait.
    """
    scheduler, patience = Noting(Limits(64, 0.03), 1), 0.03
    submit(scheduler, 1, 0.0, patience)
    batch = released(scheduler.next(0.0))
    hangs = 2 * batch.predicted + 5 * (patience - batch.predicted)
    for key in range(keys):
        scheduler.submit(Job(hangs - 0.001, deadline=hangs - 0.001 + patience, key=key))
    now = hangs + 0.001
    for key in range(keys):
        with pytest.raises(Overloaded) as refused:
            scheduler.submit(Job(now, deadline=now + patience, key=key))
        assert refused.value.retry_after == pytest.approx(1.05 * (now - batch.predicted))


def test_a_job_for_which_a_small_batch_is_in_time_is_not_refused() -> None:
    """Within 14 ms another full batch would be late behind the burst's, but no batch of its own."""
    scheduler, patience = Noting(Limits(64, 0.014), 1), 0.014
    submit(scheduler, 64, 0.0, patience)
    (last,) = submit(scheduler, 1, 0.0, patience)
    burst = released(scheduler.next(0.0))
    assert last not in burst.jobs
    scheduler.finish(burst, Outcome.DONE, burst.predicted_finish)
    assert released(scheduler.next(burst.predicted_finish)).predicted_finish <= patience


@pytest.mark.parametrize("policy", ["cork", "nexus", "greedy+drop"])
def test_a_job_that_is_hopeless_alone_comes_back_when_the_prediction_is_tested(policy: str) -> None:
    """Batches take 5 ms, and 4 are left: it is let in and shed, but for one every 4 ms, a probe."""
    scheduler = Noting(Limits(64, 0.004), 2, make_policy(policy))
    submit(scheduler, 1, 0.0)
    released(scheduler.next(0.0))
    (hasty,) = submit(scheduler, 1, 1e-3, 0.004)
    assert scheduler.next(1e-3) == Shed([hasty], ShedReason.HOPELESS)
    wait = scheduler.retry_after(hasty, 1e-3)
    assert wait == pytest.approx(1.05 * 3e-3)
    submit(scheduler, 1, 1e-3 + wait, 0.004)
    assert released(scheduler.next(1e-3 + wait)).reason is Reason.PROBE


def test_a_job_that_waited_beside_a_worker_that_hangs_comes_when_another_is_free() -> None:
    """One of two workers is overdue, the other has begun a batch: the shed jobs wait for that."""
    scheduler = Noting(Limits(64, 0.025), 2)
    submit(scheduler, 1, 0.0)
    released(scheduler.next(0.0))
    submit(scheduler, 1, 0.0)
    running = released(scheduler.next(0.0))
    waiting = submit(scheduler, 64, 1e-3, 0.025)
    scheduler.finish(running, Outcome.DONE, 22e-3)
    assert scheduler.next(22e-3) == Shed(waiting, ShedReason.HOPELESS)
    submit(scheduler, 1, 22e-3, 0.025)
    end = released(scheduler.next(22e-3)).predicted_finish
    assert scheduler.retry_after(waiting[0], 22e-3) == pytest.approx(1.05 * (end - 22e-3))


def test_a_job_that_was_late_because_it_waited_may_come_at_once() -> None:
    """Its batch would have to leave now, behind 64 others: a new one has the time for that."""
    scheduler = Noting(Limits(64, 0.025), 1)
    submit(scheduler, 1, 0.0)
    running = released(scheduler.next(0.0))
    waiting = submit(scheduler, 64, 1e-3, 0.025)
    scheduler.finish(running, Outcome.DONE, 22e-3)
    assert scheduler.next(22e-3) == Shed(waiting, ShedReason.HOPELESS)
    assert scheduler.retry_after(waiting[0], 22e-3) == 0
    submit(scheduler, 1, 22e-3, 0.025)
    assert isinstance(scheduler.next(22e-3), Batch)
