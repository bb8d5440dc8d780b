"""How fast a worker is beside its peers."""

from math import log

import pytest

from adaptive_batching.core.estimators.latency import LinearLatency
from adaptive_batching.core.estimators.pace import Pace


def test_durations_of_no_magnitude_say_nothing() -> None:
    """A ratio that is no number any more would be remembered for ever."""
    pace, line = Pace(), LinearLatency()
    for usual, duration in ((1e9, 1e-320), (1e-9, 1e300)):
        for _ in range(50):
            line.observe(1, usual)
        pace.learn(1, duration, line)
    assert pace.batches == 0


@pytest.mark.parametrize(("slower", "matters"), [(1.08, False), (1.12, True), (1.18, True)])
def test_what_differs_by_a_tenth_matters(slower: float, *, matters: bool) -> None:
    """However sure it is, a smaller difference is not worth any other decision."""
    pace = Pace()
    for _ in range(200):
        pace.observe(log(slower))
    assert pace.differs(0.0) is matters
