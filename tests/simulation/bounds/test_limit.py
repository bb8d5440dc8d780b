"""A limit says what kind of limit it is."""

from math import inf, nan

import numpy as np
import pytest

from adaptive_batching.core import Limits
from adaptive_batching.simulation.bounds.limit import limit_of
from adaptive_batching.simulation.clients.keys import Lots
from adaptive_batching.simulation.clients.retries import Retries
from adaptive_batching.simulation.kernel.fleet import Fleet
from adaptive_batching.simulation.servers.conditions import Drift
from adaptive_batching.simulation.servers.curves import Padded
from adaptive_batching.simulation.servers.servers import Server
from adaptive_batching.simulation.study.experiment import Experiment
from adaptive_batching.simulation.traffic.arrivals import poisson

STEADY = Server(5e-3, 5e-5)
TIMES = poisson(2000.0, 0.5, seed=1)
PATIENCE = np.random.default_rng(1).choice([nan, 7e-3, 0.1], len(TIMES))


def experiment(server=STEADY, **options):
    return Experiment(TIMES, server, Limits(64, 12e-3), **options)


@pytest.mark.parametrize(
    ("options", "workers", "kind"),
    [
        ({}, 1, "exact"),
        ({}, 2, "upper bound"),
        ({"sizes": [3] * len(TIMES)}, 1, "exact"),
        ({"sizes": [1, 2] * len(TIMES)}, 1, "upper bound"),
        ({"warmup": 0.1}, 1, "upper bound"),
        ({"server": Server(5e-3, 5e-5, jitter=0.1)}, 1, "without noise"),
    ],
)
def test_kinds(options, workers, kind):
    """Exact only where a schedule reaches it."""
    sizes = options.get("sizes")
    if sizes:
        options = {"sizes": sizes[: len(TIMES)]}
    assert limit_of(experiment(**options), workers).kind == kind


@pytest.mark.parametrize(
    ("options", "workers", "relaxed"),
    [
        ({"keys": Lots(8)}, 1, "keys could share batches"),
        ({"fleet": Fleet(2)}, 2, "one dispatcher had all requests"),
        ({"max_latencies": PATIENCE}, 1, "no deadline were before an earlier request's"),
        ({}, 2, "one worker were as fast as all"),
    ],
)
def test_a_bound_says_what_it_does_not_know(options, workers, relaxed):
    """It may be out of reach by as much as that is worth; no policy beats it."""
    limited = experiment(**options)
    limit = limit_of(limited, workers)
    assert limit.kind == "upper bound"
    assert relaxed in str(limit)
    for policy in ("cork", "greedy"):
        assert limited.run(policy, workers).goodput <= limit.goodput


def test_deadlines_in_the_order_of_arrival_are_exact():
    """Patience that grows; and who has no deadline at all can come last."""
    growing = np.linspace(7e-3, 20e-3, len(TIMES))
    growing[::7] = inf
    limit = limit_of(experiment(max_latencies=growing))
    assert (limit.kind, limit.relaxed) == ("exact", [])


def test_a_late_loop_has_an_exact_limit():
    """Starts and answers come later; twice 4 ms of delay leave 12 ms no room for 5.05 ms."""
    late = experiment(loop_delay=1e-3)
    assert late.run("cork").goodput <= limit_of(late).goodput < limit_of(experiment()).goodput
    limit = limit_of(experiment(loop_delay=4e-3))
    assert (limit.kind, limit.goodput) == ("exact", 0.0)


def test_the_least_mean_is_for_one_worker_and_poisson():
    """Otherwise there is none."""
    assert limit_of(experiment(), 1, 2000.0).mean_latency == pytest.approx(8.38e-3, rel=0.01)
    assert limit_of(experiment(), 2, 2000.0).mean_latency is None
    assert limit_of(experiment(), 1).mean_latency is None


def test_for_people():
    """In one line."""
    assert str(limit_of(experiment(), 1, 2000.0)) == (
        "limit: goodput 100.00% (exact), mean latency 8.38 ms expected"
    )
    assert str(limit_of(experiment(warmup=9.0))) == (
        "limit: goodput - (upper bound), as if no worker were busy after the warm-up"
    )


def test_no_limit_where_durations_vary_in_time():
    """It would hold for no batch."""
    drifting = Server(5e-3, 5e-5, conditions=(Drift(2.0, 1.0),))
    with pytest.raises(ValueError, match="expected durations that depend on the size alone"):
        limit_of(experiment(drifting))


def test_curves_have_a_limit():
    """But no least mean: with steps it may pay to serve fewer than wait."""
    padded = Server(0.0, 0.0, curve=Padded(lambda size: 5e-3 + 5e-5 * size, (1, 32, 64)))
    limit = limit_of(experiment(padded), 1, 2000.0)
    assert (limit.kind, limit.mean_latency) == ("exact", None)


def test_a_late_loop_does_not_keep_shared_workers_from_the_next_batch():
    """Batches that wait at a worker run back to back, however late anybody hears of their end."""
    times = poisson(8000.0, 0.2, seed=65)
    limits, fleet = Limits(4, 25e-3), Fleet(2, shared=True)
    hurried = Experiment(times, STEADY, limits, fleet=fleet, loop_delay=1e-3)
    assert hurried.run("bentoml", 4).goodput <= limit_of(hurried, 4).goodput


def test_no_limit_where_clients_send_again():
    """Each attempt has a deadline of its own: of the first alone, `cork` would beat the best."""
    with pytest.raises(ValueError, match="sent once, got clients who send again"):
        limit_of(experiment(retries=Retries(3, 50e-3)))
