"""A row says what happened to all requests, and None where nothing did."""

from dataclasses import asdict
from functools import partial
from io import StringIO
from math import inf

import numpy as np
import pytest
from rich.console import Console

from adaptive_batching.core import BatchRecord, JobOutcome, JobRecord, Limits, Outcome, Reason
from adaptive_batching.core.policies.greedy import Greedy
from adaptive_batching.simulation.kernel.history import History
from adaptive_batching.simulation.servers.servers import Server
from adaptive_batching.simulation.study.experiment import Experiment
from adaptive_batching.simulation.study.report import summarize, table
from adaptive_batching.simulation.traffic.arrivals import poisson


def job(arrived, finished, outcome=JobOutcome.DONE, deadline=inf):
    return JobRecord(arrived, finished, 1, outcome, deadline)


def batch(released, size=1):
    done = Outcome.DONE
    return BatchRecord(released, released + 1, size, size, None, Reason.IDLE, done, 1.0, 0.0, 0)


def summary(jobs=(), batches=(), **options):
    return summarize(History(list(jobs), list(batches)), policy="greedy", workers=2, **options)


def test_nothing_happened():
    """Counts are 0, everything else is None, never NaN."""
    row = asdict(summary())
    assert row.pop("policy") == "greedy"
    assert row.pop("workers") == 2
    counts = ("requests", "on_time", "late", "shed", "failed", "batches", "sent_again")
    assert [row.pop(name) for name in counts] == [0] * 7
    assert set(row.values()) == {None}


def test_each_outcome_is_counted_once():
    """Shed are the refused, those a full queue turned away and the expired."""
    row = summary(job(0.0, 1.0, outcome) for outcome in JobOutcome)
    assert (row.requests, row.on_time, row.late, row.shed, row.failed) == (6, 1, 0, 3, 2)
    assert row.goodput == 1 / 6


def test_late_answers_are_no_goodput():
    """At its own deadline is in time, after it is not."""
    row = summary(job(0.1, 0.3, deadline=due) for due in (0.3, 0.29, 0.4))
    assert (row.on_time, row.late, row.goodput) == (2, 1, 2 / 3)


def test_latencies_are_those_of_the_answered():
    """What was shed has none."""
    row = summary([job(0, 1), job(0, 2), job(0, 6), job(0, 100, JobOutcome.EXPIRED)])
    assert (row.mean_latency, row.p50_latency) == (3.0, 2.0)
    assert row.p99_latency == pytest.approx(5.92)


def test_warm_up_is_not_counted():
    """Neither jobs that arrived in it nor batches that left in it; the speed counts all."""
    jobs = [job(0.0, 9.0), job(1.0, 2.0)]
    row = summary(jobs, [batch(0.5, 9), batch(1.0, 3)], warmup=1.0, elapsed=0.5)
    assert (row.requests, row.mean_latency, row.batches, row.mean_batch_size) == (1, 1.0, 1, 3.0)
    assert row.jobs_per_second == 4.0


@pytest.mark.parametrize(
    ("released", "expected"),
    [([], None), ([1.0], None), ([1.0, 1.0], None), ([3.0, 1.0, 2.0], 0.0), ([0, 1, 4], 0.5)],
)
def test_how_evenly_batches_leave(released, expected):
    """In the order of release, whatever the order of their ends."""
    assert summary(batches=[batch(instant) for instant in released]).release_gap_cv == expected


def test_a_table_for_people():
    """Milliseconds, percentages, and a dash where there was nothing."""
    console = Console(width=120, file=StringIO())
    with console.capture() as printed:
        console.print(table([summary([job(0.0, 0.0125)]), summary()], "title"))
    lines = [line.split() for line in printed.get().splitlines() if "greedy" in line]
    assert lines[0][2:9] == ["100.00%", "0.00%", "0.00%", "80", "12.50", "12.50", "12.50"]
    assert set(lines[1][2:]) == {"-"}


def test_an_experiment_runs_any_policy():
    """The same traffic each time: as many requests for everyone."""
    experiment = Experiment(
        poisson(2000.0, 1.0, seed=1), Server(5e-3, 5e-5), Limits(64, 0.05), warmup=0.2
    )
    rows = [experiment.run(policy, 2) for policy in ("cork", "greedy", "window:2ms", "aimd")]
    assert len({row.requests for row in rows}) == 1
    assert all(row.goodput == 1.0 for row in rows)
    assert all(row.jobs_per_second > 0 for row in rows)


def test_policies_of_ones_own():
    """A class or a factory serves as well as a name, and the row is named after it."""
    experiment = Experiment(poisson(1000.0, 0.2, seed=1), Server(1e-3, 1e-4), Limits())
    named, classed, factored = (experiment.run(p) for p in ("greedy", Greedy, partial(Greedy)))
    assert named.policy == classed.policy == factored.policy == "greedy"
    assert named.mean_latency == classed.mean_latency == factored.mean_latency


def test_a_promise_nobody_makes():
    """Without max_latency every answer is in time."""
    row = Experiment(poisson(2000.0, 0.5, seed=1), Server(1.0, 0.0), Limits()).run("greedy")
    assert (row.goodput, row.late) == (1.0, 0)
    assert row.mean_latency < inf


def test_a_slow_trace_has_answers():
    """One answer in six seconds is not rounded to none."""
    times = np.arange(5) * 6.0
    row = Experiment(times, Server(5e-3, 5e-5), Limits(64)).run("greedy")
    console = Console(file=StringIO(), width=200)
    console.print(table([row], "slow"))
    assert " 0.21 " in console.file.getvalue()
