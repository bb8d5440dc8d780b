"""The retry budget: a handler that always fails is not asked many times as often (P15)."""

from hypothesis import given
from hypothesis import strategies as st

from adaptive_batching.core import (
    Batch,
    Costs,
    Job,
    Limits,
    Outcome,
    Reason,
    Scheduler,
    Verdict,
    make_policy,
)
from adaptive_batching.core.retry.retry_budget import RetryBudget
from tests.core.steps import released

EARN, ANSWERED = 0, -1
steps = st.lists(st.tuples(st.integers(ANSWERED, 150), st.floats(0.0, 3.0)), max_size=80)


@given(steps)
def test_the_budget_is_never_exceeded(steps: list[tuple[int, float]]) -> None:
    """Whatever is asked for, and when: what was saved, a fifth, ten a second, thrice the good."""
    budget, now, runs, spent, answered = RetryBudget(), 50.0, 0, 0, 0
    for repetitions, pause in steps:
        now += pause
        if repetitions == EARN:
            runs += 1
            budget.earn()
        elif repetitions == ANSWERED:
            answered += 1
            budget.answered()
        elif budget.spend(repetitions, now):
            spent += repetitions
        assert spent <= 100 + 0.2 * runs + 10 * (now - 50.0) + 3 * answered + 1e-6


def test_what_is_not_used_is_saved_up_to_a_limit() -> None:
    """An hour of peace pays for no more than ten seconds of it."""
    budget = RetryBudget()
    assert budget.spend(100, 0.0)
    assert not budget.spend(1, 0.0)
    assert not budget.spend(101, 3600.0)
    assert budget.spend(100, 3600.0)


def test_a_fifth_of_the_runs_may_be_repeated() -> None:
    """Where nothing else is left."""
    budget = RetryBudget(per_second=0.0, saved=1.0)
    assert budget.spend(1, 0.0)
    for _ in range(4):
        budget.earn()
    assert not budget.spend(1, 1.0)
    budget.earn()
    assert budget.spend(1, 1.0)


def test_all_or_none() -> None:
    """A refusal costs nothing, and a clock that stands still grants nothing new."""
    budget = RetryBudget(per_second=1.0, saved=3.0)
    assert not budget.spend(4, 1.0)
    assert budget.spend(3, 1.0)
    assert not budget.spend(1, 1.0)
    assert not budget.spend(2, 2.0)
    assert budget.spend(1, 2.0)


def test_repetitions_are_counted_by_the_time_that_they_take() -> None:
    """Batches of 1 ms are answered, pairs of texts that take 100 ms always raise. What they take
    again is no more than the budget of as many usual batches, not of as many runs.
    """

    def seconds(batch: Batch) -> float:
        return 1e-4 + 1e-5 * batch.cost

    limits = Limits(2, costs=Costs())
    scheduler = Scheduler(make_policy("greedy"), limits, idempotent=True)
    scheduler.rehearse((0, 1 + cost % 2, 1e-4 + 1e-5 * cost, cost) for cost in (80, 100, 121) * 30)
    usual, first, again, now = 1.1e-3, 0.0, 0.0, 0.0
    refused = 0
    for _ in range(50):
        for cost in (50.0, 50.0, 5000.0, 5000.0):
            scheduler.submit(Job(now, cost=cost))
        while scheduler.items:
            batch = released(scheduler.next(now))
            now += seconds(batch)
            raises = batch.cost > 100
            if batch.reason is Reason.BISECT:
                again += seconds(batch)
            else:
                first += seconds(batch)
            outcome = Outcome.FAILED if raises else Outcome.DONE
            told = scheduler.finish(batch, outcome, now, batch.jobs if raises else ()).verdicts
            refused += Verdict.OVER_BUDGET in told.values()
    assert 0 < again <= 1.1 * (0.2 * first + (100 + 10 * now) * usual)
    assert refused > 0
