"""Batches that are not to blame for their end run again as they are."""

from math import inf

import pytest

from adaptive_batching.core import (
    Batch,
    Hold,
    Job,
    Limits,
    Outcome,
    Reason,
    Scheduler,
    Verdict,
    make_policy,
)
from tests.core.steps import released, submit


def run(scheduler, outcome, now, start=None):
    """Let the next batch end like that; returns it and what becomes of its members."""
    batch = released(scheduler.next(now))
    return batch, scheduler.finish(batch, outcome, now, batch.jobs, start).verdicts


@pytest.fixture
def scheduler():
    return Scheduler(make_policy("greedy"), Limits(8), 2)


@pytest.mark.parametrize("outcome", [Outcome.UNSENT, Outcome.REFUSED])
def test_what_has_not_run(scheduler, outcome):
    """It runs again as it was, though nobody said that running twice is as good as once."""
    submit(scheduler, 5, 0.0)
    first, _ = run(scheduler, outcome, 0.0)
    again = released(scheduler.next(0.0))
    assert again.jobs == first.jobs
    assert again.reason is Reason.RETRY


def test_what_may_have_run(scheduler):
    """It does not run again unless somebody said so; then it does, once."""
    submit(scheduler, 5, 0.0)
    assert not run(scheduler, Outcome.UNANSWERED, 0.0)[1]
    assert isinstance(scheduler.next(0.0), Hold)
    idempotent = Scheduler(make_policy("greedy"), Limits(8), 2, idempotent=True)
    submit(idempotent, 1, 0.0)
    run(idempotent, Outcome.UNANSWERED, 0.0)
    assert not run(idempotent, Outcome.UNANSWERED, 0.0)[1]


def test_a_batch_over_which_workers_hang_up_twice():
    """It may be about a member: they run in groups, one group at a time, and then alone."""
    scheduler = Scheduler(make_policy("greedy"), Limits(12), 2, idempotent=True)
    bad = submit(scheduler, 12, 0.0)[4]
    sizes, ends = [], []
    while isinstance(batch := scheduler.next(0.0), Batch):
        assert not batch.deaths or isinstance(scheduler.next(0.0), Hold)
        outcome = Outcome.UNANSWERED if bad in batch.jobs else Outcome.DONE
        verdicts = scheduler.finish(batch, outcome, 0.0, batch.jobs).verdicts
        sizes.append(batch.size)
        ends += [verdicts.get(job) for job in batch.jobs if verdicts.get(job) is not Verdict.AGAIN]
    assert sizes == [12, 12, 3, 3, 3, 3, 1, 1, 1]
    assert sorted(map(str, ends)) == ["None"] * 11 + ["Verdict.GUILTY"]


def test_who_can_not_be_reached_twice(scheduler):
    """Once is enough."""
    submit(scheduler, 5, 0.0)
    run(scheduler, Outcome.UNSENT, 0.0)
    assert not run(scheduler, Outcome.UNSENT, 0.0)[1]


def test_refused_again_and_again(scheduler):
    """As long as there is time; who waits for ever is told at the first chance."""
    patient, endless = Job(0.0, deadline=10.0), Job(0.0, deadline=inf)
    for job in (patient, endless):
        scheduler.submit(job)
    _, verdicts = run(scheduler, Outcome.REFUSED, 0.0, start=1.0)
    assert [verdicts[job].value for job in (patient, endless)] == ["again", "too_late"]
    for at in range(1, 9):
        _, verdicts = run(scheduler, Outcome.REFUSED, float(at), start=at + 1.0)
        assert verdicts[patient].value == "again"
    _, verdicts = run(scheduler, Outcome.REFUSED, 9.0, start=11.0)
    assert verdicts[patient].value == "too_late"


def test_answers_that_can_not_be_shared_out():
    """Each of the members runs alone."""
    scheduler = Scheduler(make_policy("greedy"), Limits(8), 1, idempotent=True)
    submit(scheduler, 8, 0.0)
    run(scheduler, Outcome.UNSHARED, 0.0)
    sizes = [run(scheduler, Outcome.DONE, 0.0)[0].size for _ in range(8)]
    assert sizes == [1] * 8


def test_the_budget_of_repetitions(scheduler):
    """A worker that refuses everything is asked a fifth more often than there is work, and 100."""
    runs, jobs = 0, 1000
    for _ in range(jobs):
        submit(scheduler, 1, 0.0)
        again = True
        while again:
            _, verdicts = run(scheduler, Outcome.REFUSED, 0.0)
            again = Verdict.AGAIN in verdicts.values()
            runs += 1
    assert jobs < runs <= 1.2 * jobs + 100
