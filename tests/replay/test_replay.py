"""The same requests live and simulated: counts and shapes, for times depend on the machine."""

import json
import logging
import os
import re
import threading

import numpy as np
import pytest
from click.testing import CliRunner

from adaptive_batching.cli import main
from adaptive_batching.core import RECORDING, JobOutcome, Limits
from adaptive_batching.replay import Conditions, Overhead, compare, send
from adaptive_batching.replay import overhead as overhead_measured
from adaptive_batching.replay.fidelity import foretell
from adaptive_batching.simulation import poisson

INSTANTS = poisson(100, 1.0, seed=1)


@pytest.fixture(autouse=True)
def _log_level():
    """The command lowers its own program's voice, not that of the other tests."""
    logger = logging.getLogger("adaptive_batching")
    level = logger.level
    yield
    logger.setLevel(level)


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "trace.csv"
    rows = "".join(f"{time:.6f},1\n" for time in INSTANTS)
    path.write_text(f"t_seconds,size\n{rows}")
    return path


def run(*arguments):
    return CliRunner().invoke(main, ["replay", *map(str, arguments)])


async def test_every_request_is_sent_at_its_instant_and_ends_once():
    """The history is what the clients saw, in the order of sending."""
    conditions = Conditions(2e-3, 0.1e-3, Limits(8), "greedy", workers=2)
    measured = await send(conditions, INSTANTS)
    jobs, batches = measured.history.jobs, measured.history.batches
    assert [job.arrived for job in jobs] == INSTANTS.tolist()
    assert {job.outcome for job in jobs} == {JobOutcome.DONE}
    assert sum(batch.size for batch in batches) == len(jobs)
    assert min(batch.oldest_arrived for batch in batches) == pytest.approx(INSTANTS[0])
    assert sorted(size for size, _ in measured.taken) == sorted(batch.size for batch in batches)
    assert all(seconds > 2e-3 for _, seconds in measured.taken)
    assert len(measured.waits) == len(jobs)


def overhead(*, fixed, wait):
    return Overhead(fixed, 0.0, residuals=(), waits=(wait,), timer_resolution=1e-3)


def test_the_overhead_is_added_to_what_is_simulated():
    """A lone request takes its batch and the network; the batches are the scheduler's."""
    conditions = Conditions(2e-3, 0.0, Limits(8), "greedy")
    history = foretell(conditions, INSTANTS[:1], np.zeros(1), overhead(fixed=3e-3, wait=1e-3))
    assert history.jobs[0].latency == pytest.approx(4e-3)
    assert history.batches[0].duration == pytest.approx(3e-3)


def test_what_was_sent_late_arrives_late_and_its_latency_counts_from_its_instant():
    """The generator's lag is in both columns alike."""
    conditions = Conditions(2e-3, 0.0, Limits(8), "greedy")
    told = overhead(fixed=3e-3, wait=0.0)
    history = foretell(conditions, np.array([1.0, 2.0]), np.array([5e-3, 0.0]), told)
    assert [job.arrived for job in history.jobs] == [1.0, 2.0]
    assert [job.latency for job in history.jobs] == pytest.approx([8e-3, 3e-3])
    assert history.batches[0].released == 1.005


def test_a_member_of_a_running_batch_is_told_when_its_deadline_comes():
    """As live: it is no answer, late or not, and its batch runs on."""
    conditions = Conditions(2e-3, 0.0, Limits(8, max_latency=10e-3), "greedy")
    told = overhead(fixed=15e-3, wait=1e-3)
    history = foretell(conditions, np.array([1.0]), np.zeros(1), told)
    assert history.jobs[0].outcome is JobOutcome.EXPIRED
    assert history.jobs[0].latency == pytest.approx(11e-3)
    assert history.batches[0].duration == pytest.approx(15e-3)


def far_off(found):
    """The figures in which the simulation is off by more than a busy machine excuses."""
    bounds = {"mean_latency": 0.15, "p50_latency": 0.15, "p99_latency": 0.3, "goodput": 0.02}
    return {
        name: (getattr(found.measured, name), getattr(found.simulated, name))
        for name, bound in bounds.items()
        if getattr(found.simulated, name) != pytest.approx(getattr(found.measured, name), rel=bound)
    }


async def test_the_simulation_says_what_the_service_did():
    """Two workers, half loaded; tried again while other tests take the machine's time."""
    conditions = Conditions(20e-3, 1e-3, Limits(16, max_latency=0.3), workers=2)
    for _ in range(6):
        found = await compare(conditions, poisson(400, 2.0, seed=1), warmup=0.4)
        if not far_off(found):
            return
    if found.lag > 10e-3:
        pytest.skip(f"the machine is too busy: requests were sent {found.lag:.3f} s late")
    assert not far_off(found)


def test_a_trace_is_sent_and_simulated(trace):
    """The same requests in both columns, and what the simulation was told."""
    arguments = ("--live", "--latency", "2ms+0.1ms", "--speedup", 2, "--warmup", "0s")
    result = run(trace, *arguments, "--format", "json")
    assert result.exit_code == 0, result.output
    reply = json.loads(result.stdout)
    assert reply["trace"]["sent"] == len(INSTANTS)
    assert reply["measured"]["requests"] == reply["simulated"]["requests"] == len(INSTANTS)
    assert reply["measured"]["goodput"] == reply["simulated"]["goodput"] == 1.0
    assert reply["overhead"]["fixed"] > 0
    assert set(reply["difference"]) == {
        "mean_latency", "p50_latency", "p99_latency", "goodput", "mean_batch_size",
    }  # fmt: skip


@pytest.mark.parametrize("piped", [False, True])
def test_what_a_recording_brings_besides_is_said_to_be_left_out(tmp_path, piped):
    """The model sleeps by the number of requests, whatever they cost and hold."""
    path = tmp_path / "recording.csv"
    rows = [f"{index / 50},{1 + index % 3},{10 + index},0.01,,done,,,," for index in range(20)]
    if piped:
        os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=["\n".join([RECORDING, *rows])])
    writer.start()
    if not piped:
        writer.join()
    result = run(path, "--live", "--latency", "2ms", "--warmup", "0s", "--format", "json")
    writer.join()
    assert result.exit_code == 0, result.output
    assert re.match(
        r"Warning: items and costs of .*/recording.csv are left out: each", result.stderr
    )
    told = json.loads(result.stdout)["trace"]
    assert (told["sent"], told["items"], told["costs"]) == (20, None, None)


def test_the_table_says_what_was_assumed(trace, monkeypatch):
    """Measured beside simulated, below it the overhead; only so many seconds are sent."""
    monkeypatch.setattr(overhead_measured, "_SECONDS", 0.4)
    result = run(
        trace, "--live", "--apart", "--duration", 0.5, "--timer-resolution", "3ms", "--warmup", "0s"
    )
    assert result.exit_code == 0, result.output
    sent = int((INSTANTS <= 0.5).sum())
    assert result.stdout.startswith(f"{sent} requests of")  # above the table, not as narrow
    for heading in ("measured", "simulated", "difference", "p99 latency, ms", "of 3 ms"):
        assert heading in " ".join(result.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "expected --live"),
        (("--live", "--speedup", "0"), "speedup"),
        (("--live", "--duration", "0"), "expected a duration"),
        (("--live", "--warmup", "60s"), "warmup: expected less than the traffic's"),
    ],
)
def test_mistakes_are_named(trace, arguments, complaint):
    """Before anything is sent."""
    result = run(trace, *arguments)
    assert result.exit_code == 2
    assert complaint in result.output
