"""The least mean latency of one worker under Poisson arrivals is the known one."""

import numpy as np
import pytest
from scipy.stats import poisson as poisson_distribution

from adaptive_batching.core import Limits
from adaptive_batching.simulation.bounds.optimum import least_mean_latency
from adaptive_batching.simulation.servers.servers import Server
from adaptive_batching.simulation.study.experiment import Experiment
from adaptive_batching.simulation.traffic.arrivals import poisson

DURATIONS = 5e-3 + 5e-5 * np.arange(1, 65)
CAPACITY = 64 / 8.2e-3


@pytest.mark.parametrize(
    ("load", "milliseconds"),
    [
        (0.02, 6.683), (0.05, 7.533), (0.1, 7.817), (0.2, 8.183), (0.3, 8.547), (0.5, 9.375),
        (0.7, 10.380), (0.9, 11.724), (0.95, 12.537),
    ],
)  # fmt: skip
def test_published_table(load, milliseconds):
    """From relative value iteration over every decision, to a tenth of a percent."""
    best = least_mean_latency(load * CAPACITY, DURATIONS)
    assert best.mean_latency * 1e3 == pytest.approx(milliseconds, rel=1e-3)


@pytest.mark.parametrize(("load", "jobs"), [(0.02, 1), (0.05, 1), (0.1, 2), (0.2, 4), (0.3, 6)])
def test_the_limit(load, jobs):
    """It waits for 0.4 of a typical batch, where that matters at all."""
    assert least_mean_latency(load * CAPACITY, DURATIONS).jobs == jobs


def over_every_decision(rate, durations, states=70):
    """Relative value iteration: with any number waiting, wait or serve any number of them."""
    waiting, batches = np.arange(states), np.arange(1, len(durations) + 1)
    follow = np.zeros((len(batches) + 1, states, states))  # by decision: wait, or serve so many
    lasts = np.array([1 / rate, *durations])
    follow[0, waiting, np.minimum(waiting + 1, states - 1)] = 1.0
    for size in batches:
        come = waiting - (waiting[:, np.newaxis] - size)
        follow[size] = poisson_distribution.pmf(come, rate * durations[size - 1])
        follow[size, :, -1] += 1.0 - follow[size].sum(axis=1)
    cost = waiting * lasts[:, np.newaxis]
    cost[1:] += rate * lasts[1:, np.newaxis] ** 2 / 2  # who comes meanwhile waits for half of it
    possible = np.arange(len(batches) + 1)[:, np.newaxis] <= waiting
    step = lasts.min() / 2  # makes one chain of decisions that take different times (Schweitzer)
    share = (step / lasts)[:, np.newaxis]
    value = np.zeros(states)
    while True:
        after = np.einsum("dws,s->dw", follow, value)
        each = cost / lasts[:, np.newaxis] * step + share * after + (1 - share) * value
        better = np.where(possible, each, np.inf).min(axis=0)
        gains = better - value
        if np.ptp(gains) < 1e-9 * gains.max():
            return gains.mean() / step / rate
        value = better - better[0]


@pytest.mark.parametrize("load", [0.05, 0.2, 0.5, 0.8])
@pytest.mark.parametrize(("fixed", "per_item"), [(1.0, 0.1), (1.0, 1.0), (0.2, 1.0)])
def test_no_decision_is_better(load, fixed, per_item):
    """Batches of up to four: nothing that may be decided is better, a smaller batch neither."""
    durations = fixed + per_item * np.arange(1, 5)
    rate = load * 4 / durations[-1]
    best = least_mean_latency(rate, durations)
    assert best.mean_latency == pytest.approx(over_every_decision(rate, durations), rel=1e-5)


def test_one_at_a_time():
    """Batches of one are the M/D/1 queue, known in closed form."""
    best = least_mean_latency(0.7, np.array([1.0]))
    assert best.mean_latency == pytest.approx(1 + 0.7 / (2 * (1 - 0.7)), rel=1e-9)


def test_simulation_agrees():
    """Greedy at half load is as good as the optimum, to the accuracy of 40,000 requests."""
    rate = 0.5 * CAPACITY
    times = poisson(rate, 40_000 / rate, seed=1)
    row = Experiment(times, Server(5e-3, 5e-5), Limits(64)).run("greedy")
    assert row.mean_latency == pytest.approx(
        least_mean_latency(rate, DURATIONS).mean_latency, rel=0.01
    )


@pytest.mark.parametrize("load", [0.999, 1.0, 2.0])
def test_too_much_load(load):
    """No stable mean, or one that says nothing."""
    assert least_mean_latency(load * CAPACITY, DURATIONS) is None
