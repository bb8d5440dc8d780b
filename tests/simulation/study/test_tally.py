"""A tally says of any traffic what the records would have said, in the memory of a block."""

import tracemalloc
from dataclasses import asdict
from math import inf

import pytest

from adaptive_batching.core import Limits
from adaptive_batching.simulation.servers.servers import Server
from adaptive_batching.simulation.study.experiment import Experiment
from adaptive_batching.simulation.study.tally import Tally
from adaptive_batching.simulation.traffic.arrivals import poisson
from adaptive_batching.simulation.traffic.traces import Request

SERVER = Server(5e-3, 5e-5, jitter=0.1)


def stream(times):
    return lambda: (Request(time) for time in times.tolist())


@pytest.mark.no_cover
@pytest.mark.parametrize("policy", ["cork", "greedy"])
@pytest.mark.parametrize("promise", [inf, 12e-3])
@pytest.mark.parametrize("warmup", [0.0, 0.5])
def test_it_agrees_with_the_records(policy, promise, warmup):
    """Counts are equal, means to rounding, percentiles to 0.1 %."""
    times = poisson(14_000.0, 6.0, seed=1)  # more than one block
    kept, streamed = (
        asdict(Experiment(arrivals, SERVER, Limits(64, promise, 200), warmup=warmup).run(policy, 2))
        for arrivals in (times, stream(times))
    )
    for name in ("p50_latency", "p99_latency"):
        assert streamed.pop(name) == pytest.approx(kept.pop(name), rel=2e-3)
    for name in ("mean_latency", "release_gap_cv", "throughput"):
        assert streamed.pop(name) == pytest.approx(kept.pop(name), rel=1e-6)
    assert kept.pop("jobs_per_second") > 0
    assert streamed.pop("jobs_per_second") > 0
    assert streamed == kept


def test_nothing_happened():
    """Counts are 0, everything else is None."""
    row = asdict(Tally().row("greedy", 1))
    assert set(row.values()) == {"greedy", 1, 0, None}


def test_answers_in_no_time():
    """A latency of nothing is nothing, not the edge of the first bin."""
    row = Experiment(stream(poisson(100.0, 1.0, seed=1)), Server(0.0, 0.0), Limits()).run("greedy")
    assert (row.p50_latency, row.mean_latency) == (0.0, 0.0)


@pytest.mark.no_cover
def test_memory_does_not_grow():
    """Four blocks of requests take no more than two."""

    def peak(requests):
        tracemalloc.start()
        arrivals = lambda: (Request(index * 1e-4) for index in range(requests))  # noqa: E731
        row = Experiment(arrivals, Server(5e-3, 5e-5), Limits()).run("greedy", 2)
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert row.requests == requests
        return used

    assert peak(4 * 16_384) < 1.2 * peak(2 * 16_384)
