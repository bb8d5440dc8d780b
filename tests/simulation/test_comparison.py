"""Whether a policy is worse is judged on pairs: the same traffic, the same luck."""

from dataclasses import replace

import pytest

from adaptive_batching.core import Limits
from adaptive_batching.simulation.arrivals import poisson
from adaptive_batching.simulation.comparison import compared
from adaptive_batching.simulation.experiment import Experiment
from adaptive_batching.simulation.servers import Server

ROW = Experiment(poisson(500.0, 0.1, seed=1), Server(1e-3, 0.0), Limits(8, 1.0)).run("greedy")
LIMITS = {"max_goodput_loss": 0.01, "max_p99_increase": 0.1}


def row(goodput, p99):
    return replace(ROW, goodput=goodput, p99_latency=p99)


def test_means_and_intervals_of_the_differences():
    """What both runs have in common cancels out."""
    pairs = [(row(0.9, 0.010), row(0.89, 0.011)), (row(0.5, 0.020), row(0.47, 0.024))]
    comparison = compared(pairs, max_goodput_loss=0.05, max_p99_increase=0.2)
    assert comparison.goodput_loss.mean == pytest.approx(0.02)
    low, high = comparison.goodput_loss.low, comparison.goodput_loss.high
    assert low < 0.01
    assert high > 0.03
    assert comparison.p99_increase.mean == pytest.approx(0.15)
    assert comparison.faults == []


@pytest.mark.parametrize(
    ("new", "fault"),
    [
        (row(0.88, 0.01), "goodput fell by 2.00% of all requests, not 1.00%"),
        (row(0.90, 0.012), "p99 rose by 20.0%, not 10.0%"),
        (row(0.90, None), "in one of the runs nobody was answered"),
    ],
)
def test_a_limit_that_is_passed(new, fault):
    """Is named, with both numbers."""
    assert compared([(row(0.9, 0.01), new)], **LIMITS).faults == [fault]


def test_a_better_one():
    """More goodput and shorter latencies are no fault; one run has no interval."""
    comparison = compared([(row(0.9, 0.01), row(1.0, 0.001))], **LIMITS)
    assert comparison.faults == []
    change = comparison.goodput_loss
    assert change.low == change.mean == change.high == pytest.approx(-0.1)
