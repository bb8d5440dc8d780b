"""What a request costs does not grow with what waits."""

import sys
from collections.abc import Callable
from statistics import median

import pytest

from adaptive_batching.bench.growth import CROWDS, OPERATIONS, Crowd

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
