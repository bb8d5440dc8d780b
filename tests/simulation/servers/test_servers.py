"""Synthetic workers take the time they are told to, and the same luck for the same seed."""

from itertools import pairwise
from math import inf, nan

import numpy as np
import pytest

from adaptive_batching.core import Limits, Scheduler, make_policy
from adaptive_batching.simulation.kernel.engine import simulate
from adaptive_batching.simulation.servers.servers import (
    Server,
    UnevenServers,
    parse_latency,
    parse_servers,
)
from adaptive_batching.units import parse_occasion


def test_without_jitter_it_is_exact():
    """Fixed and per item, to the last bit."""
    service = Server(5e-3, 5e-5).service(seed=3)
    assert [service(size) for size in (1, 64)] == [5e-3 + 5e-5 * 1, 5e-3 + 5e-5 * 64]


def test_jitter_keeps_the_mean():
    """Lognormal noise of mean 1 and the sigma that was asked for."""
    service = Server(1.0, 0.0, jitter=0.2).service(seed=1)
    logs = np.log([service(1) for _ in range(20_000)])
    assert logs.std() == pytest.approx(0.2, rel=0.03)
    assert np.exp(logs).mean() == pytest.approx(1.0, rel=0.01)


def test_pauses_come_on_top():
    """About as many as asked for, each of its length."""
    service = Server(1.0, 0.0, pause_probability=0.25, pause=10.0).service(seed=1)
    durations = [service(1) for _ in range(10_000)]
    assert set(durations) == {1.0, 11.0}
    assert np.mean(np.array(durations) == 11.0) == pytest.approx(0.25, abs=0.02)


def test_measured_residuals_come_back_in_runs():
    """Each as often as the others, and what followed it follows it again."""
    residuals = (0.0, 1.0, 2.0, 30.0)
    server = Server(1.0, 0.0, residuals=residuals)
    service = server.service(seed=1)
    durations = [service(1) - 1.0 for _ in range(20_000)]
    assert np.mean(durations) == pytest.approx(np.mean(residuals), rel=0.03)
    followers = [next_ for now, next_ in pairwise(durations) if now == 2.0]
    assert np.mean(np.array(followers) == 30.0) > 0.8
    assert server.noisy
    assert server.mean(1) == pytest.approx(1.0 + np.mean(residuals))


def test_a_residual_never_turns_time_back():
    """A batch takes no less than no time."""
    service = Server(1e-3, 0.0, residuals=(-2e-3, 0.0)).service(seed=1)
    assert {service(1) for _ in range(100)} == {0.0, 1e-3}


def test_the_same_seed_brings_the_same_luck():
    """Also beyond the first block of draws; another seed brings another."""
    server = Server(1.0, 0.5, jitter=0.1, pause_probability=0.1, pause=1.0)
    one, same, other = (server.service(seed) for seed in (1, 1, 2))
    first = [one(1) for _ in range(10_000)]
    assert first == [same(1) for _ in range(10_000)]
    assert first != [other(1) for _ in range(10_000)]


@pytest.mark.parametrize("name", ["fixed", "per_item", "jitter", "pause"])
@pytest.mark.parametrize("value", [-1.0, nan, inf])
def test_impossible_workers(name, value):
    """The quantity is named."""
    with pytest.raises(ValueError, match=f"{name}: expected a finite number of 0 or more"):
        Server(**{"fixed": 1.0, "per_item": 1.0, name: value})


@pytest.mark.parametrize("value", [-0.1, 1.1, nan])
def test_a_probability(value):
    """It lies between 0 and 1."""
    with pytest.raises(ValueError, match="pause_probability: expected 0 to 1"):
        Server(1.0, 1.0, pause_probability=value)


def test_spellings():
    """As people type them."""
    assert parse_latency("5ms+0.05ms") == (5 * 1e-3, 0.05 * 1e-3)
    assert parse_latency("1s + 0s") == parse_latency("1s") == (1.0, 0.0)
    assert parse_occasion("0.5%:10ms") == (0.5 / 100, 10 * 1e-3)


@pytest.mark.parametrize("text", ["", "5", "5ms+", "+1ms", "5+1", "5ms+1ms+1ms", "5ms-1ms"])
def test_misspelt_latency(text):
    """Refused with what was expected and what came."""
    with pytest.raises(ValueError, match=r"expected .*, got"):
        parse_latency(text)


@pytest.mark.parametrize("text", ["", "1%", "0.01:10ms", "x%:10ms", "1%:10", "-1%:1ms", ".%:1ms"])
def test_misspelt_pause(text):
    """Refused with what was expected and what came."""
    with pytest.raises(ValueError, match=r"expected .*, got"):
        parse_occasion(text)


def test_workers_that_differ():
    """Each has its own durations and its own luck; there must be one for each worker."""
    assert parse_servers("2x5ms+1ms") == (Server(5e-3, 1e-3),) * 2
    assert parse_servers("5ms+1ms") == (Server(5e-3, 1e-3),)
    servers = UnevenServers((*parse_servers("2x1s+0s"), Server(3.0, 0.0)))
    history = simulate([0.0] * 3, Scheduler(make_policy("greedy"), Limits(1), 3), servers.service())
    assert [each.duration for each in history.batches] == [1.0, 1.0, 3.0]
    noisy = UnevenServers((Server(1.0, 0.0, jitter=0.1),) * 2).service(seed=1)
    assert noisy[0](1) != noisy[1](1)
    with pytest.raises(ValueError, match="expected one for each of 2 workers, got 3"):
        simulate([0.0], Scheduler(make_policy("greedy"), Limits(1), 2), servers.service())
