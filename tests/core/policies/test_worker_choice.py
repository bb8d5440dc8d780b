"""What Cork does with workers of different speed: a fast one and one that takes 4 times as long.

A batch of n takes 5 ms + 0.05 ms * n on the fast one, worker 0; both have run, long before 0.
"""

from math import inf

import pytest

from adaptive_batching.core import Batch, Hold, Limits, Outcome, Reason, Scheduler
from adaptive_batching.core.policies.cork.cork import Cork
from adaptive_batching.simulation import (
    Drift,
    Experiment,
    Server,
    UnevenServers,
    poisson,
    simulate,
)
from tests.core.steps import released, submit

FAST, SLOW = 0, 1


def trained(max_latency: float = inf, since: float = -0.1) -> Scheduler:
    """Both workers have run sixty batches of many sizes; the slow one's newest left at `since`."""
    scheduler = Scheduler(Cork(), Limits(64, max_latency), workers=2)
    for step in range(60):
        size = 1 + 7 * step % 20
        for index, slowness in enumerate((1.0, 4.0)):
            scheduler.permits.learn(index, size, slowness * (5e-3 + 5e-5 * size))
    for worker in scheduler.permits.workers:
        worker.released = since
    return scheduler


def with_fast_busy(max_latency: float = inf, size: int = 20) -> tuple[Scheduler, Batch]:
    """At 0 the fast worker has got a batch, which takes 6 ms."""
    scheduler = trained(max_latency)
    submit(scheduler, size, 0.0, max_latency)
    batch = released(scheduler.next(0.0))
    assert batch.worker == FAST
    return scheduler, batch


def test_a_batch_waits_for_the_faster_worker() -> None:
    """It is done after 6 + 5 ms there; on the slow one, idle as it is, it would take 20."""
    scheduler, first = with_fast_busy()
    (job,) = submit(scheduler, 1, 1e-3)
    assert isinstance(scheduler.next(1e-3), Hold)
    scheduler.finish(first, Outcome.DONE, 6e-3)
    batch = released(scheduler.next(6e-3))
    assert (batch.worker, batch.jobs) == (FAST, [job])


def test_nobody_waits_for_a_worker_that_hangs() -> None:
    """Who is overdue by x is expected to need x more: the slow one gets the batch in the end."""
    scheduler, _ = with_fast_busy()
    submit(scheduler, 1, 1e-3)
    hold = scheduler.next(1e-3)
    assert isinstance(hold, Hold)
    assert 15e-3 < hold.until < 25e-3
    assert released(scheduler.next(hold.until)).worker == SLOW


def test_a_long_queue_is_worth_a_slow_worker() -> None:
    """The fast one would need 34 ms for four full batches; the slow one has done the first then."""
    scheduler, _ = with_fast_busy()
    submit(scheduler, 256, 1e-3)
    assert released(scheduler.next(1e-3)).worker == SLOW


def test_a_slow_worker_gets_no_deadline_that_it_would_break() -> None:
    """With 15 ms left the fast one will be in time, the slow one can't: no matter that it hangs."""
    scheduler, first = with_fast_busy(max_latency=15e-3)
    submit(scheduler, 1, 1e-3, 15e-3)
    assert isinstance(scheduler.next(1e-3), Hold)
    assert isinstance(scheduler.next(8e-3), Hold)
    scheduler.finish(first, Outcome.DONE, 9e-3)
    assert released(scheduler.next(9e-3)).worker == FAST


def test_a_deadline_that_only_the_slow_worker_is_sure_to_keep() -> None:
    """The fast one would be done first, if it ended now; but it is overdue, and nobody knows."""
    scheduler, _ = with_fast_busy(max_latency=40e-3)
    submit(scheduler, 1, 0.0, 40e-3)
    step = scheduler.next(0.0)
    while isinstance(step, Hold):
        now = step.until
        step = scheduler.next(now)
    batch = released(step)
    assert batch.worker == SLOW
    assert batch.released + batch.predicted <= 40e-3


def test_who_is_passed_over_for_long_is_tried_with_one_job() -> None:
    """Without batches it would be called slow for ever: 0.5 s are fifty of the fast one."""
    scheduler = trained(since=-0.5)
    submit(scheduler, 20, 0.0)
    released(scheduler.next(0.0))
    submit(scheduler, 9, 1e-3)
    trial = released(scheduler.next(1e-3))
    assert (trial.worker, trial.size, trial.reason) == (SLOW, 1, Reason.PROBE)
    assert isinstance(scheduler.next(1e-3), Hold)
    scheduler.finish(trial, Outcome.DONE, 1e-3 + 5.05e-3)  # it has recovered
    assert released(scheduler.next(7e-3)).worker == SLOW


def test_a_slow_worker_is_worth_its_jobs_where_items_cost_much() -> None:
    """The fast one would be busy with them for so much longer, while others come."""
    servers = UnevenServers((Server(2e-3, 3e-3), Server(4e-3, 6e-3)))
    experiment = Experiment(poisson(220.0, 20.0, seed=1), servers, Limits(64), warmup=2.0)
    greedy, cork = (experiment.run(policy, 2) for policy in ("greedy", "cork"))
    assert greedy.mean_latency is not None
    assert cork.mean_latency is not None
    assert cork.mean_latency < 1.15 * greedy.mean_latency


def test_the_door_is_closed_to_who_only_the_slow_worker_could_take() -> None:
    """An idle worker lets nobody in whom it would answer too late."""
    scheduler, _ = with_fast_busy(max_latency=8e-3)
    with pytest.raises(Exception, match="out of reach within max_latency=8 ms"):
        submit(scheduler, 1, 1e-3, 8e-3)


@pytest.mark.no_cover
def test_other_keys_that_go_first_take_longer_on_the_slow_worker_too() -> None:
    """They are counted in seconds of the worker on which the job's own batch would run."""
    scheduler, _ = with_fast_busy()
    (view,) = scheduler.queues.values()
    usual = scheduler.latency.predict(1)
    known = view.situation(1e-3, others=3 * usual)
    assert known.predict(1) > 2 * usual
    assert known.others == pytest.approx(3 * known.predict(1))
    assert known.faster is not None
    fast = known.on(known.faster)
    assert fast.others == pytest.approx(3 * fast.predict(1))


def test_one_slow_worker_of_four_does_not_show_in_the_latency() -> None:
    """Half of the 99th percentile of who takes any idle worker, and a worker that slows down in
    the middle is passed over until it has recovered.
    """
    server = Server(5e-3, 5e-5, jitter=0.1)
    weary = Server(5e-3, 5e-5, 0.1, conditions=(Drift(4.0, 1.0, 0.0), Drift(0.25, 3.0)))
    scheduler = Scheduler(Cork(), Limits(64), workers=4)
    servers = UnevenServers((server, server, server, weary))
    history = simulate(poisson(15_000.0, 6.0, seed=1), scheduler, servers.service(1))
    before, during, after = (
        [batch for batch in history.batches if begin <= batch.released < begin + 0.9]
        for begin in (0.1, 2.0, 5.0)
    )
    shares = [
        sum(batch.size for batch in each if batch.worker == 3) / sum(batch.size for batch in each)
        for each in (before, during, after)
    ]
    assert shares[0] == pytest.approx(0.25, abs=0.03)
    assert shares[1] < 0.02
    assert shares[2] == pytest.approx(0.25, abs=0.03)
    slow_time = sorted(job.latency for job in history.jobs if 2.0 <= job.arrived < 3.0)
    assert slow_time[int(0.99 * len(slow_time))] < 15e-3


def test_a_pause_of_the_process_leaves_the_slow_worker_its_jobs() -> None:
    """After a wake-up that came 10 s late, a deadline that the slow one can keep still counts."""
    scheduler, _ = with_fast_busy(max_latency=80e-3)
    scheduler._timer_lateness.due = -10.0
    scheduler._timer_lateness.woke(0.0)
    submit(scheduler, 256, 1e-3, 80e-3)
    assert released(scheduler.next(1e-3)).worker == SLOW
