"""The clairvoyant is right: no schedule does better, and where it is exact one does as well."""

from functools import cache
from itertools import combinations
from math import inf
from time import thread_time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptive_batching.core import Limits
from adaptive_batching.simulation.bounds.clairvoyant import most_on_time, on_time_at_most
from adaptive_batching.simulation.servers.servers import Server
from adaptive_batching.simulation.study.experiment import Experiment
from adaptive_batching.simulation.traffic.arrivals import poisson

BASE = Server(5e-3, 5e-5)


def best_of_all_schedules(times, sizes, duration, *, due, max_batch_size, workers):
    """Every choice of members, in every order, on every worker, each batch as early as it can be.

    Only for a handful of jobs.
    """

    @cache
    def best(waiting: frozenset, free: tuple) -> int:
        found = 0
        for count in range(1, len(waiting) + 1):
            for members in combinations(sorted(waiting), count):
                size = sum(sizes[job] for job in members)
                if size > max_batch_size:
                    continue
                start = max(free[0], *(times[job] for job in members))
                end = start + duration(size)
                if all(end <= due[job] for job in members):
                    then = tuple(sorted((*free[1:], end)))
                    found = max(found, count + best(waiting.difference(members), then))
        return found

    return best(frozenset(range(len(times))), (-inf,) * workers)


worlds = st.fixed_dictionaries(
    {
        "times": st.lists(st.integers(0, 12), max_size=6).map(sorted),
        "fixed": st.integers(0, 4),
        "per_item": st.integers(0, 3),
        "patience": st.integers(1, 10).map(lambda seconds: [seconds] * 6)
        | st.lists(st.integers(1, 10) | st.just(inf), min_size=6, max_size=6),
        "max_batch_size": st.integers(1, 4),
        "workers": st.integers(1, 3),
        "sizes": st.none() | st.lists(st.integers(1, 3), min_size=6, max_size=6),
    }
)


@given(worlds, st.none() | st.lists(st.integers(0, 9), min_size=4, max_size=4))
def test_no_schedule_is_better(world, table):
    """It is the best of all schedules where it says so, and never less than that anywhere."""
    times = np.array(world["times"], float)
    sizes = world["sizes"] and world["sizes"][: len(times)]

    def duration(size):
        line = world["fixed"] + world["per_item"] * size
        return float(table[size - 1] if table else line)

    conditions = {name: world[name] for name in ("max_batch_size", "workers")}
    conditions["due"] = times + np.array(world["patience"][: len(times)], float)
    bound, exact = on_time_at_most(times, duration, sizes=sizes, **conditions)
    best = best_of_all_schedules(times, sizes or [1] * len(times), duration, **conditions)
    assert best <= bound <= len(times)
    if exact:
        assert bound == best


@pytest.mark.no_cover
@pytest.mark.parametrize("promise", [12e-3, 25e-3])
@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("load", [0.8, 1.2])
def test_no_policy_is_better(promise, workers, load):
    """Simulated policies stay at or under it; at 120 % load with time to spare cork is near it."""
    times = poisson(load * workers * 7805, 0.5, seed=3)
    experiment = Experiment(times, BASE, Limits(64, promise))
    conditions = {"due": times + promise, "max_batch_size": 64, "workers": workers}
    bound, exact = on_time_at_most(times, BASE.mean, **conditions)
    assert exact == (workers == 1)
    for policy in ("cork", "greedy", "aimd"):
        assert experiment.run(policy, workers).on_time <= bound


def test_published_figures():
    """24,000 Poisson requests at 120 % load: 84 % with 25 ms to spare, 67 % with 12 ms."""
    times = poisson(1.2 * 7805, 24_000 / (1.2 * 7805), seed=1)
    durations = np.array([BASE.mean(size) for size in range(1, 65)])
    begun = thread_time()
    shares = [
        most_on_time(times, durations, times + promise) / len(times) for promise in (25e-3, 12e-3)
    ]
    assert shares == pytest.approx([0.84, 0.67], abs=0.006)
    assert thread_time() - begun < 12  # it takes about one


def test_a_backlog_that_grows():
    """One worker, ten times too much: exactly the full batches that the time is enough for."""
    times = np.zeros(1000)
    on_time = most_on_time(times, np.full(10, 1.0), times + 50.0)
    assert on_time == 500


def test_nothing_and_no_promise():
    """No requests, and a promise of ever."""
    for requests in (0, 9):
        times, due = np.zeros(requests), np.full(requests, inf)
        assert on_time_at_most(times, BASE.mean, due=due, max_batch_size=4) == (requests, True)


def test_what_never_fits():
    """More items than a batch may hold: nobody can answer that, whatever the promise."""
    conditions = {"max_batch_size": 4, "due": np.ones(3), "sizes": [5, 4, 4]}
    assert on_time_at_most(np.zeros(3), BASE.mean, **conditions) == (2, True)


def test_several_sizes_are_a_bound():
    """It says so; the capacity counts the small ones first."""
    conditions = {"max_batch_size": 4, "due": np.full(5, 2.0), "sizes": [1, 3, 3, 1, 1]}
    assert on_time_at_most(np.zeros(5), float, **conditions) == (2, False)


def test_large_units():
    """Tokens by the hundred thousand: the work follows the batches that are possible, not those."""
    times = poisson(100.0, 1.0, seed=1)
    sizes = [1 + 50 * (job % 40) for job in range(len(times))]
    conditions = {"max_batch_size": 300_000, "due": times + 0.05, "sizes": sizes}
    bound, exact = on_time_at_most(times, Server(5e-3, 1e-6).mean, **conditions)
    assert (bound, exact) == (len(times), False)


def test_thirds_that_do_not_add_up_cost_nobody() -> None:
    """Three workers with a second each for three jobs: all are in time, whatever rounding says."""
    bound, exact = on_time_at_most(
        np.full(3, 8.0), float, due=np.full(3, 9.0), max_batch_size=1, workers=3
    )
    assert (bound, exact) == (3, False)
