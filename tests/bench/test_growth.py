"""What a request costs does not grow with what waits."""

import sys
from collections.abc import Callable
from statistics import median

import pytest

from adaptive_batching.bench.growth import CROWDS, OPERATIONS, Crowd
from adaptive_batching.core import (
    Batch,
    BatchRecord,
    Decision,
    Dispatch,
    Hold,
    Job,
    Limits,
    Outcome,
    Policy,
    Reason,
    Scheduler,
    Situation,
    make_policy,
)

FEW, MANY = 100, 10_000
DOUBLED = 2.0  # the logarithm of the number


def calls_of(operation: Callable[[], object]) -> int:
    """How many functions are called, in Python and in C."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        operation()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("waiting", CROWDS)
def test_a_hundred_times_as_many_take_no_more_than_the_logarithm(waiting: str) -> None:
    """Submit, dispatch, refusal and cancel, beside jobs, keys, tenants and aged jobs."""
    few, many = Crowd(CROWDS[waiting], FEW), Crowd(CROWDS[waiting], MANY)
    for name, prepared in OPERATIONS.items():
        beside = [median(calls_of(prepared(crowd)) for _ in range(25)) for crowd in (few, many)]
        assert beside[1] <= DOUBLED * beside[0] + 10, (name, beside)


class AllButOne:
    """Holds the batch of one key for ever, and releases those of all others."""

    def decide(self, situation: Situation) -> Decision:
        """Hold what came first."""
        return Hold() if situation.head.key == 0 else Dispatch(1, Reason.IDLE)

    def observe(self, batch: BatchRecord) -> None:
        """Nothing."""


def drained(policy: Policy, number: int, left: int) -> int:
    """How many functions are called until jobs of a key each have ended, but for those left."""
    scheduler = Scheduler(policy, Limits())
    for key in range(number):
        scheduler.submit(Job(0.0, key=key))

    def to_the_end() -> None:
        for step in range(number - left):
            batch = scheduler.next(step * 1e-3)
            assert isinstance(batch, Batch)
            scheduler.finish(batch, Outcome.DONE, (step + 1) * 1e-3)

    return calls_of(to_the_end)


@pytest.mark.parametrize(("policy", "left"), [(make_policy("cork"), 0), (AllButOne(), 1)])
def test_ten_times_as_many_keys_that_leave_take_ten_times_the_work(
    policy: Policy, left: int
) -> None:
    """No batch is looked for among the queues that are empty by now, nor behind one that holds."""
    assert drained(policy, 1_000, left) <= 1.5 * 10 * drained(policy, 100, left)
