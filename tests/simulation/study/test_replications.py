"""Several seeds say how sure a figure is; pairs of them say it of a difference."""

from dataclasses import replace
from io import StringIO
from multiprocessing import active_children

import pytest
from rich.console import Console

from adaptive_batching.core import Limits
from adaptive_batching.simulation.servers.servers import Server
from adaptive_batching.simulation.study import seeds
from adaptive_batching.simulation.study.experiment import Experiment
from adaptive_batching.simulation.study.replications import (
    Estimate,
    estimate,
    replicate,
    replicated_table,
)
from adaptive_batching.simulation.traffic.arrivals import poisson

CONTESTANTS = [("greedy", 2), ("cork", 2), ("greedy", 1)]


def make(seed):
    arrivals = poisson(4000.0, 0.5, seed=seed)
    return Experiment(arrivals, Server(5e-3, 5e-5, jitter=0.1), Limits(64), seed=seed)


def test_an_interval():
    """Student's, for the mean of four."""
    found = estimate([1.0, 2.0, 3.0, 4.0])
    assert found.mean == 2.5
    assert found.half_width == pytest.approx(3.182446 * 1.2909944 / 2, rel=1e-6)


def test_little_to_estimate():
    """One has no interval, none has no mean."""
    assert estimate([2.0, None]) == Estimate(2.0, None)
    assert estimate([None]) is None


def test_intervals_hold_what_they_promise():
    """About 95 of 100 of them contain the true mean."""
    inside = 0
    for seed in range(200):
        mean = estimate(
            [float(len(poisson(100.0, 1.0, seed=8 * seed + each))) for each in range(8)]
        )
        inside += abs(mean.mean - 100.0) <= mean.half_width
    assert inside / 200 == pytest.approx(0.95, abs=0.04)


def test_pairs_are_surer_than_figures():
    """Cork against greedy: the difference is known better than either, and has a sign."""
    greedy, cork, alone = replicate(make, CONTESTANTS, range(4))
    assert greedy.change == alone.change == {}
    change = cork.change["mean_latency"]
    assert change.mean + change.half_width < 0
    own = cork.figures["mean_latency"]
    assert change.half_width < own.half_width / own.mean * 2
    assert cork.figures["goodput"] == Estimate(1.0, 0.0)
    assert (cork.policy, cork.workers) == ("cork", 2)


def test_processes_change_nothing(monkeypatch):
    """The same figures as here, one after the other, but for the speed of the machine."""

    def figures():
        done = []
        rows = replicate(make, CONTESTANTS, range(2), done=lambda: done.append(active_children()))
        return [
            replace(row, figures={**row.figures, "jobs_per_second": None}) for row in rows
        ], done

    here, nobody = figures()
    monkeypatch.setattr(seeds, "_FEW", 0)
    monkeypatch.setattr("psutil.Process.cpu_affinity", lambda self: [0, 1])
    elsewhere, children = figures()
    assert elsewhere == here
    assert nobody == [[], []]
    assert all(children)


def test_few_failed_and_no_changes(monkeypatch):
    """Columns are there when there is something in them."""
    one = replicate(make, CONTESTANTS[:1], range(2))
    failing = [
        replace(row, figures={**row.figures, "failed": Estimate(1234.0, 17.4)}) for row in one
    ]
    console = Console(width=160, file=StringIO())
    console.print(replicated_table(one, ""))
    assert "failed" not in console.file.getvalue()
    assert "Δ" not in console.file.getvalue()
    console.print(replicated_table(failing, ""))
    assert "1,234 ±17" in console.file.getvalue()


def test_a_table_for_people():
    """Figures with their intervals, differences with their signs."""
    console = Console(width=160, file=StringIO())
    with console.capture() as printed:
        console.print(replicated_table(replicate(make, CONTESTANTS[:2], range(2)), "title"))
    greedy, cork = (line for line in printed.get().splitlines() if "±" in line)
    assert "100.00 ±0" in greedy
    assert "-" in cork.split("±")[-2]
    assert "…" not in printed.get()
