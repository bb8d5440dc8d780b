"""The retry budget: a handler that always fails is not asked many times as often (P15)."""

from hypothesis import given
from hypothesis import strategies as st

from adaptive_batching.core.retry.retry_budget import RetryBudget

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
