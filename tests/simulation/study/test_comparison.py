"""Whether a policy is worse is judged on pairs: the same traffic, the same luck."""

from dataclasses import replace

import pytest

from adaptive_batching.core import Limits
from adaptive_batching.simulation.servers.servers import Server
from adaptive_batching.simulation.study.comparison import Tolerance as Worse
from adaptive_batching.simulation.study.comparison import compared
from adaptive_batching.simulation.study.experiment import Experiment
from adaptive_batching.simulation.traffic.arrivals import poisson

ROW = Experiment(poisson(500.0, 0.1, seed=1), Server(1e-3, 0.0), Limits(8, 1.0)).run("greedy")
LIMITS = Worse(0.01, 0.05, 0.1, 0.1)


def row(goodput=0.9, p99=0.01, **figures):
    return replace(ROW, goodput=goodput, p99_latency=p99, **figures)


def test_means_and_intervals_of_the_differences():
    """What both runs have in common cancels out."""
    pairs = [(row(0.9, 0.010), row(0.89, 0.011)), (row(0.5, 0.020), row(0.47, 0.024))]
    comparison = compared(pairs, Worse(0.05, 0.05, 0.1, 0.2))
    assert comparison.goodput_loss.mean == pytest.approx(0.02)
    low, high = comparison.goodput_loss.low, comparison.goodput_loss.high
    assert low < 0.01
    assert high > 0.03
    assert comparison.p99_increase.mean == pytest.approx(0.15)
    assert comparison.faults == []


@pytest.mark.parametrize(
    ("new", "fault"),
    [
        ({"goodput": 0.88}, "goodput fell by 2.00% of all requests, not 1.00%"),
        ({"throughput": 0.93 * ROW.throughput}, "answers/s fell by 7.0%, not 5.0%"),
        ({"mean_latency": 1.3 * ROW.mean_latency}, "mean latency rose by 30.0%, not 10.0%"),
        ({"p99": 0.012}, "p99 rose by 20.0%, not 10.0%"),
        ({"p99": None, "mean_latency": None}, "in one of the runs no request was answered"),
        ({"requests": 0, "goodput": None}, "in one of the runs nothing came after the warm-up"),
    ],
)
def test_a_limit_that_is_passed(new, fault):
    """Is named, with both numbers."""
    assert compared([(row(), row(**new))], LIMITS).faults == [fault]


def test_any_throughput_will_do():
    """Where arrivals are given it says little, so it need not be judged."""
    less = row(throughput=ROW.throughput / 2)
    comparison = compared([(row(), less)], replace(LIMITS, throughput_loss=None))
    assert comparison.throughput_loss.mean == pytest.approx(0.5)
    assert comparison.faults == []


def test_two_that_answer_nothing_in_time():
    """Neither is worse, and neither is good enough."""
    nothing = row(0.0, on_time=0)
    (fault,) = compared([(nothing, nothing)], LIMITS).faults
    assert fault.startswith("neither answered anything in time")


def test_a_model_that_takes_no_time():
    """Is as good as itself, and any wait is longer."""
    at_once, later = (row(p99=each, mean_latency=each) for each in (0.0, 1e-3))
    assert compared([(at_once, at_once)], LIMITS).faults == []
    assert len(compared([(at_once, later)], LIMITS).faults) == 2


def test_a_better_one():
    """More goodput and shorter latencies are no fault; one run has no interval."""
    comparison = compared([(row(), row(1.0, 0.001))], LIMITS)
    assert comparison.faults == []
    change = comparison.goodput_loss
    assert change.low == change.mean == change.high == pytest.approx(-0.1)
