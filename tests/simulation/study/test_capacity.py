"""The fewest workers that hold a promise, and how much more they would bear."""

import re
from dataclasses import replace
from math import inf

import numpy as np
import pytest

from adaptive_batching.core import Limits
from adaptive_batching.simulation.clients.closed_loop import ClosedLoop, Span
from adaptive_batching.simulation.servers.servers import Server
from adaptive_batching.simulation.study.capacity import curve, smallest
from adaptive_batching.simulation.study.experiment import Experiment
from adaptive_batching.simulation.study.target import Target
from adaptive_batching.simulation.traffic.arrivals import poisson
from adaptive_batching.simulation.traffic.traces import Request

TARGET = Target(0.99, 25e-3)
TIMES = poisson(3000.0, 1.0, seed=3)


def experiment(arrivals=TIMES, largest=12, **options):
    return Experiment(arrivals, Server(5e-3, 5e-5), Limits(largest, 25e-3), **options)


def test_the_fewest_workers_and_their_best_limit():
    """One worker less would not do, and no other limit does better."""
    search = smallest(experiment(), "cork", range(1, 5), TARGET)
    best, tried = search.best, search.tried
    assert best is not None
    assert best.row.workers == 2
    assert not any(trial.holds for trial in tried if trial.row.workers == 1)
    rivals = [trial for trial in tried if trial.row.workers == 2 and trial.holds]
    assert best.row.p99_latency == min(trial.row.p99_latency for trial in rivals)
    assert {trial.max_batch_size for trial in tried} <= {1, 2, 4, 8, 12}


def test_what_can_not_be_enough_is_not_tried():
    """3,000 a second need batches of eight from two workers that never rest."""
    tried = smallest(experiment(), "cork", [2], TARGET).tried
    assert [trial.max_batch_size for trial in tried] == [8, 12]
    with_sizes = experiment(sizes=[1] * len(TIMES))
    tried = smallest(with_sizes, "cork", [2], TARGET).tried
    assert [trial.max_batch_size for trial in tried] == [1, 2, 4, 8, 12]


def test_what_was_recorded_goes_before_what_was_not():
    """A limit beyond the largest recorded batch is best only if no other holds."""
    best = smallest(experiment(), "cork", [2], TARGET, recorded=9).best
    assert best is not None
    assert best.max_batch_size == 9
    best = smallest(experiment(), "cork", [2], TARGET, recorded=1).best
    assert best is not None
    assert best.max_batch_size > 1


def test_nothing_is_enough():
    """Then it says so."""
    search = smallest(experiment(largest=2), "cork", [1], TARGET)
    assert (search.best, search.tried) == (None, [])
    (short,) = search.short
    assert short.workers == 1
    assert short.reasons == ["392 answers/s if they never rest, 2,811 are needed"]


def test_a_model_that_takes_no_time():
    """One worker is always enough."""
    instant = Experiment(TIMES, Server(0.0, 0.0), Limits(1, 1.0))
    best = smallest(instant, "greedy", [1, 2], TARGET).best
    assert best is not None
    assert best.row.workers == 1


def test_more_traffic_is_worse():
    """The curve goes through the traffic as it is, and ends where the promise breaks."""
    best = smallest(experiment(), "cork", range(1, 5), TARGET).best
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
    best = smallest(sized, "greedy", range(1, 5), TARGET).best
    assert best is not None
    half = next(iter(curve(sized, "greedy", best, TARGET)))
    items = half.row.mean_batch_size * half.row.batches / half.row.requests
    assert items == pytest.approx(2.0, rel=0.05)


def test_why_fewer_were_not_enough():
    """The best batch limit of one worker could keep up, but not in time."""
    hasty = Target(0.99, 8e-3)
    search = smallest(experiment(poisson(2000.0, 1.0, seed=1), 64), "greedy", range(1, 9), hasty)
    assert search.best is not None
    assert [each.workers for each in search.short] == [*range(1, search.best.row.workers)]
    (reason,) = search.short[0].reasons
    assert re.fullmatch(r"p99 [0-9.]+ ms, not 8.00 ms \(batches of up to [0-9]+\)", reason)


LOOP = ClosedLoop(64, 0.5, Span(0, 0), Span(1e-3, 1e-3))


def test_the_fewest_workers_for_so_many_users():
    """One gives them 4,900 answers a second at the most, as greedy splits them into two groups."""
    loop = ClosedLoop(64, 0.5, Span(0, 0), Span(0.3e-3, 2.3e-3))
    users = Experiment(loop, Server(5e-3, 5e-5), Limits(64))
    told = []
    asked = Target(0.99, inf, throughput=5000.0)
    search = smallest(users, "greedy", range(1, 4), asked, done=lambda: told.append(None))
    assert search.best is not None
    assert search.best.row.workers == 2
    assert search.best.row.throughput > 5000
    assert len(told) == 2 * 7
    (short,) = search.short
    assert "answers/s, not 5,000 (batches of up to 64)" in short.reasons[0]
    points = list(curve(users, "greedy", search.best, asked))
    assert [point.users for point in points] == [32, 48, 58, 64, 70, 80, 96, 128]
    assert points[0].holds  # half of the users need half of the answers
    assert points[0].row.throughput < 6000


def test_users_who_want_their_answers_soon():
    """The p99 is a target of its own, and what can't be enough for the answers is not tried."""
    users = Experiment(LOOP, Server(5e-3, 5e-5), Limits(64, 9e-3))
    best = smallest(users, "greedy", range(1, 9), Target(0.99, 9e-3)).best
    assert best is not None
    assert best.row.p99_latency <= 9e-3
    hopeless = smallest(users, "greedy", [1], Target(0.99, 9e-3, 9000.0))
    assert hopeless.tried == []
    assert "9,000 are needed" in hopeless.short[0].reasons[0]


@pytest.mark.parametrize(
    ("row", "missed"),
    [
        ({"goodput": 0.98999}, ["goodput 98.99%, not 99.00%"]),
        ({"p99_latency": 0.025001}, ["p99 25.01 ms, not 25.00 ms"]),
        ({"throughput": 999.9}, ["999 answers/s, not 1,000"]),
        ({"p99_latency": None}, ["no request was answered"]),
        ({}, []),
    ],
)
def test_what_was_missed_never_looks_enough(row, missed):
    """However narrowly."""
    figures = {"goodput": 1.0, "throughput": 1000.0, "p99_latency": 0.025}
    simulated = experiment(TIMES[:1]).run("greedy")
    target = replace(TARGET, throughput=1000.0)
    assert target.missed(replace(simulated, **{**figures, **row})) == missed


def test_only_traffic_that_is_known():
    """A stream is read anew for each run, and can't be scaled."""
    stream = experiment(lambda: iter([Request(0.0)]))
    with pytest.raises(ValueError, match="expected arrivals that are known, got a stream"):
        smallest(stream, "cork", [1], TARGET)
