"""The fewest workers that hold a promise, and how much more they would bear."""

import numpy as np
import pytest

from adaptive_batching.core import Limits
from adaptive_batching.simulation.arrivals import poisson
from adaptive_batching.simulation.capacity import Target, curve, smallest
from adaptive_batching.simulation.closed_loop import ClosedLoop, Span
from adaptive_batching.simulation.experiment import Experiment
from adaptive_batching.simulation.servers import Server

TARGET = Target(0.99, 25e-3)
TIMES = poisson(3000.0, 1.0, seed=3)


def experiment(arrivals=TIMES, largest=12, **options):
    return Experiment(arrivals, Server(5e-3, 5e-5), Limits(largest, 25e-3), **options)


def test_the_fewest_workers_and_their_best_limit():
    """One worker less would not do, and no other limit does better."""
    best, tried = smallest(experiment(), "cork", range(1, 5), TARGET)
    assert best is not None
    assert best.row.workers == 2
    assert not any(trial.holds for trial in tried if trial.row.workers == 1)
    rivals = [trial for trial in tried if trial.row.workers == 2 and trial.holds]
    assert best.row.p99_latency == min(trial.row.p99_latency for trial in rivals)
    assert {trial.max_batch_size for trial in tried} <= {1, 2, 4, 8, 12}


def test_what_can_not_be_enough_is_not_tried():
    """3,000 a second need batches of eight from two workers that never rest."""
    _, tried = smallest(experiment(), "cork", [2], TARGET)
    assert [trial.max_batch_size for trial in tried] == [8, 12]
    with_sizes = experiment(sizes=[1] * len(TIMES))
    _, tried = smallest(with_sizes, "cork", [2], TARGET)
    assert [trial.max_batch_size for trial in tried] == [1, 2, 4, 8, 12]


def test_nothing_is_enough():
    """Then it says so."""
    assert smallest(experiment(largest=2), "cork", [1], TARGET) == (None, [])


def test_a_model_that_takes_no_time():
    """One worker is always enough."""
    instant = Experiment(TIMES, Server(0.0, 0.0), Limits(1, 1.0))
    best, _ = smallest(instant, "greedy", [1, 2], TARGET)
    assert best is not None
    assert best.row.workers == 1


def test_more_traffic_is_worse():
    """The curve goes through the traffic as it is, and ends where the promise breaks."""
    best, _ = smallest(experiment(), "cork", range(1, 5), TARGET)
    assert best is not None
    points = list(curve(experiment(), "cork", best, TARGET))
    by_scale = {point.scale: point for point in points}
    assert by_scale[1.0].row == best.row
    assert by_scale[0.5].holds
    assert not by_scale[2.0].holds
    assert by_scale[2.0].row.requests == pytest.approx(2 * len(TIMES), rel=0.01)


def test_sizes_go_with_their_requests():
    """Scaled traffic brings the sizes of the requests that it was made of."""
    sizes = np.arange(len(TIMES)) % 3 + 1
    sized = experiment(sizes=sizes.tolist(), largest=64)
    best, _ = smallest(sized, "greedy", range(1, 5), TARGET)
    assert best is not None
    half = next(iter(curve(sized, "greedy", best, TARGET)))
    items = half.row.mean_batch_size * half.row.batches / half.row.requests
    assert items == pytest.approx(2.0, rel=0.05)


def test_only_traffic_that_is_known():
    """Users who wait for answers can't be scaled like a trace."""
    users = experiment(ClosedLoop(4, 1.0, Span(0, 0), Span(1e-3, 1e-3)))
    with pytest.raises(ValueError, match="expected arrivals that are known"):
        smallest(users, "cork", [1], TARGET)
