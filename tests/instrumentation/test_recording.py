"""A recording holds every request of real traffic, however it ended, and the simulator reads it."""

import asyncio
import csv
import gzip
import os
import subprocess
import sys
import threading
import weakref
from math import nan
from pathlib import Path
from types import SimpleNamespace

import pytest

from adaptive_batching.core import BatchRecord, Costs, Job, JobOutcome, Limits, Outcome, Reason
from adaptive_batching.dispatcher import Dispatcher
from adaptive_batching.errors import DeadlineExceeded, JobTooLarge, Overloaded
from adaptive_batching.instrumentation import recording
from adaptive_batching.instrumentation.recording import Recorder
from adaptive_batching.simulation import read_trace
from adaptive_batching.simulation.traffic.traces.recording import recorded_batches
from adaptive_batching.workers.local import TaskWorkers
from tests.virtual_time import run_virtually

BATCH = BatchRecord(1.0, 1.5, 3, 3, None, Reason.FULL, Outcome.DONE, 0.5, 0.0, 0)


def rows(path):
    with gzip.open(path, "rt") as file:
        return list(csv.DictReader(file))


def told(recorder, arrived, outcome=JobOutcome.DONE, batch=None, **options):
    """One request ends 0.25 s after its arrival."""
    if batch is not None:
        recorder.batch_ended(None, batch)
    recorder.jobs_ended([Job(arrived, **options)], outcome, arrived + 0.25, batch)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "out.csv.gz"


async def work(items):
    """A tenth of a second a batch; some items fail by themselves."""
    await asyncio.sleep(0.1)
    return [KeyError(item) if item == "bad" else item for item in items]


def test_a_plain_name_is_a_plain_file(tmp_path):
    """What doesn't end in .gz can be looked at as it is, and both can be replayed."""
    for name, first in (("out.csv", b"t_"), ("out.csv.gz", b"\x1f\x8b")):
        path = tmp_path / name
        with Recorder(path, clock=lambda: 0.0) as recorder:
            told(recorder, 1.0)
            told(recorder, 2.0)
        assert path.read_bytes()[:2] == first
        assert read_trace(path).times.tolist() == [0.0, 1.0]


def test_a_restart_keeps_the_earlier_recordings(tmp_path):
    """They get numbers, but for such as nothing had come to; who still writes one goes on."""
    path = tmp_path / "out.csv.gz"
    first = Recorder(path)
    told(first, 1.0)
    first._writer.shutdown()
    for _ in range(2):
        with Recorder(path):
            pass
    told(first, 2.0)
    first.close()
    with Recorder(path) as third:
        told(third, 3.0)
        told(third, 4.0)
        told(third, 5.0)
    with Recorder(path) as fourth:
        told(fourth, 6.0)
    assert {file.name: len(rows(file)) for file in tmp_path.iterdir()} == {
        "out.1.csv.gz": 2, "out.2.csv.gz": 3, "out.csv.gz": 1
    }  # fmt: skip


def test_two_that_record_to_one_file_lose_nothing(tmp_path, caplog):
    """The second one finds that the first has it, though nothing is in it yet."""
    path = tmp_path / "out.csv"
    with Recorder(path) as first, Recorder(path) as second:
        assert "out.csv is being recorded to by another: that goes on as " in caplog.text
        for number in range(2):
            told(first, number)
        for number in range(3):
            told(second, number)
    found = {file.name: len(file.read_text().splitlines()) for file in tmp_path.iterdir()}
    assert found == {"out.1.csv": 1 + 2, "out.csv": 1 + 3}


def test_a_recording_behind_a_link(tmp_path):
    """The file is renamed and not the link, and what is no file stays what it is."""
    path, there = tmp_path / "out.csv", tmp_path / "there.csv"
    path.symlink_to(there)
    for _ in range(2):
        with Recorder(path, clock=lambda: 0.0) as recorder:
            told(recorder, 1.0)
    assert path.readlink() == there
    assert (tmp_path / "there.1.csv").read_bytes() == there.read_bytes()
    with Recorder("/dev/null") as recorder:
        told(recorder, 1.0)
    assert not recorder.dropped


def test_a_recording_is_private(path):
    """Only its user may read it, whatever the umask; rows say who asked when."""
    before = os.umask(0)
    try:
        with Recorder(path):
            pass
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a link to another user, which root may")
@pytest.mark.parametrize("hops", [1, 2])
def test_a_link_of_another_user(tmp_path, hops):
    """It is refused, also behind one of ours, and the file that it leads to stays as it was."""
    precious, link, path = tmp_path / "precious", tmp_path / "theirs", tmp_path / "ours"
    precious.write_text("x" * 300)
    precious.chmod(0o600)
    link.symlink_to(precious)
    os.lchown(link, 65534, 65534)
    path.symlink_to(link.name)
    with pytest.raises(PermissionError, match="got a link of user 65534"):
        Recorder(link if hops == 1 else path).open()
    assert {each.name for each in tmp_path.iterdir()} == {"precious", "theirs", "ours"}
    assert precious.read_text() == "x" * 300


def test_a_link_to_itself(tmp_path):
    """It is an error that names it."""
    path = tmp_path / "out.csv"
    path.symlink_to(path)
    with pytest.raises(OSError, match=r"out\.csv"):
        Recorder(path).open()


def test_no_key_is_kept(path):
    """A batch key holds credentials, so only its hash is kept in memory."""

    class Key:
        pass

    key = Key()
    gone = weakref.ref(key)
    with Recorder(path) as recorder:
        job = Job(0.0, key=key)
        recorder.jobs_ended([job], JobOutcome.SHED, 1.0, None)
        del key, job
        assert gone() is None


def test_requests_of_unknown_cost_have_a_row(path):
    """Neither is in a batch, so no duration is read of it, and its cost is one of the others'."""
    with Recorder(path, clock=lambda: 0.0) as recorder:
        told(recorder, 0.0, cost=7.0, batch=BATCH)
        for outcome in (JobOutcome.DONE, JobOutcome.FAILED):  # it is no item, or `cost` raised
            told(recorder, 1.0, outcome, cost=nan)
    assert [(row["outcome"], row["cost"]) for row in rows(path)] == [
        ("done", "7"), ("done", ""), ("failed", "")
    ]  # fmt: skip
    assert len([*recorded_batches(path)]) == 1
    assert read_trace(path).costs.tolist() == [7.0, 7.0, 7.0]


def test_a_batch_whose_answers_were_late_is_learned_from(path):
    """Its requests expired, and have a batch: one that has none was not answered at all."""
    with Recorder(path, clock=lambda: 0.0) as recorder:
        told(recorder, 1.25, JobOutcome.EXPIRED, BATCH)
        told(recorder, 2.0, JobOutcome.EXPIRED)
    assert [batch.duration for batch in recorded_batches(path)] == [0.5]


def test_every_way_to_end_is_a_row(path):
    """Answered, failed, left, refused, expired: each once, with its batch if there was one."""

    async def story():
        clock = asyncio.get_running_loop().time
        recorder = Recorder(path, clock=clock)
        limits = Limits(max_batch_size=2, max_latency=1.0, max_queue=3)
        with recorder:
            dispatcher = Dispatcher(
                TaskWorkers(work, 1), limits, policy="greedy", clock=clock, observers=[recorder]
            )
            async with dispatcher:
                first = [asyncio.ensure_future(dispatcher.submit(x)) for x in ("good", "bad")]
                await asyncio.sleep(0.05)
                waiting = asyncio.ensure_future(dispatcher.submit("gone"))
                hasty = asyncio.ensure_future(dispatcher.submit("hasty", max_latency=0.01))
                await asyncio.sleep(0)
                waiting.cancel()
                with pytest.raises(JobTooLarge):
                    await dispatcher.submit("large", size=3)
                left = asyncio.ensure_future(dispatcher.submit("left"))
                await asyncio.wait([hasty])
                await asyncio.sleep(0.06)
                left.cancel()
                await asyncio.gather(*first, left, hasty, waiting, return_exceptions=True)
                assert isinstance(hasty.exception(), DeadlineExceeded | Overloaded)

    run_virtually(story())
    ends = sorted((row["outcome"], row["batch"]) for row in rows(path))
    assert ends == [
        ("cancelled", ""),
        ("cancelled", "2"),
        ("done", "1"),
        ("expired", ""),
        ("failed", "1"),
        ("shed", ""),
    ]
    first = next(row for row in rows(path) if row["outcome"] == "done")
    assert first == {
        "t_seconds": "0.000000",
        "size": "1",
        "cost": "0",
        "latency_seconds": "0.100000",
        "key": "",
        "outcome": "done",
        "batch": "1",
        "batch_size": "2",
        "batch_seconds": "0.100000",
        "reason": "full",
    }


def test_costs_are_recorded(path):
    """As a trace has them, whatever their unit."""
    with Recorder(path, clock=lambda: 0.0) as recorder:
        told(recorder, 0.0, cost=1234567.0)
        told(recorder, 1.0, cost=0.125)
    assert read_trace(path).costs.tolist() == [1234567.0, 0.125]


def test_a_request_refused_before_it_is_weighed(path):
    """It has no cost in the recording, instead of one of 0; without costs it has 0 as all have."""

    async def story(costs):
        clock = asyncio.get_running_loop().time
        with Recorder(path, clock=clock) as recorder:
            limits = Limits(2, 10.0, costs=costs)
            options = {"policy": "cork", "clock": clock, "observers": [recorder]}
            async with Dispatcher(TaskWorkers(work, 1), limits, **options) as dispatcher:
                for cost in (5.0, 50.0) * 10:
                    await dispatcher.submit("good", cost=cost)
                calls = [
                    asyncio.ensure_future(dispatcher.submit("good", cost=5.0)) for _ in range(3)
                ]
                await asyncio.sleep(0.02)
                assert dispatcher.refuse_unseen(0.05) is not None
                await asyncio.gather(*calls, return_exceptions=True)

    for costs, unknown in ((Costs(padded=True), ""), (None, "0")):
        run_virtually(story(costs))
        refused = [row["cost"] for row in rows(path) if row["outcome"] == "shed"]
        assert unknown in refused, refused


def test_the_simulator_reads_it(path):
    """All arrivals in order from the first, refused ones too; `fit` gets the batches that ran."""
    with Recorder(path, clock=lambda: 100.0) as recorder:
        told(recorder, 105.5, batch=BATCH, size=3)
        told(recorder, 105.0, JobOutcome.SHED, size=2)
        told(recorder, 106.0, JobOutcome.FAILED, BATCH)
    trace = read_trace(path)
    assert trace.times.tolist() == [0.0, 0.5, 1.0]
    assert trace.sizes.tolist() == [2, 3, 1]
    assert list(recorded_batches(path)) == [(3, 0.5, 5.25, 5.5, "full", 0.0, 0.0)]


def test_keys_are_told_apart_and_not_given_away(path):
    """Equal keys look equal within a file; nothing of them is written."""
    with Recorder(path) as recorder:
        for key in ("alice", "bob", "alice", None):
            told(recorder, 1.0, key=key)
    alice, bob, again, none = (row["key"] for row in rows(path))
    assert alice == again != bob
    assert none == ""
    assert "alice" not in gzip.decompress(path.read_bytes()).decode()


def test_a_killed_process_leaves_whole_blocks(path, monkeypatch):
    """Whatever was written before the end can be read; only the last block is missing."""
    monkeypatch.setattr(recording, "_BLOCK", 10)
    recorder = Recorder(path)
    for index in range(25):
        told(recorder, float(index))
    recorder._writer.shutdown()
    assert len(rows(path)) == 21  # the first goes at once, to say early that nothing can be written
    recorder.close()
    assert len(rows(path)) == 25


def test_a_slow_disk_costs_rows_and_nothing_else(path, monkeypatch, caplog):
    """What the writer can't take is dropped, counted and reported."""
    monkeypatch.setattr(recording, "_BLOCK", 1)
    monkeypatch.setattr(recording, "_MOST_BLOCKS", 3)
    recorder = Recorder(path)
    stuck = asyncio.run(_while_stuck(recorder))
    assert stuck == recorder.dropped == 7
    assert len(rows(path)) == 3
    assert "7 rows were dropped" in caplog.text


async def _while_stuck(recorder):
    gate = threading.Event()
    write = recorder._write
    recorder._write = lambda *what: gate.wait() and write(*what)
    for index in range(10):
        told(recorder, float(index))
    dropped = recorder.dropped
    gate.set()
    recorder.close()
    return dropped


def test_a_full_disk_is_told_once(path, monkeypatch, caplog):
    """The service goes on without its recording."""
    monkeypatch.setattr(recording, "_BLOCK", 1)

    def full(_):
        raise OSError(28, "No space left on device")

    with Recorder(path) as recorder:
        recorder._file = SimpleNamespace(write=full, flush=None, close=recorder._file.close)
        for index in range(5):
            told(recorder, float(index))
    assert recorder.dropped == 5
    assert caplog.text.count("what can't be written is dropped") == 1


def test_nowhere_to_write(tmp_path, caplog):
    """Opened by hand it says so; opened by its first row it is logged once, and nothing breaks."""
    nowhere = tmp_path / "no" / "such" / "folder"
    with pytest.raises(FileNotFoundError), Recorder(nowhere):
        pass
    recorder = Recorder(nowhere)
    for index in range(3):
        told(recorder, float(index))
    recorder.close()
    assert caplog.text.count("nothing is recorded") == 1
    assert recorder.dropped == 3


def test_a_program_that_never_closes_it(tmp_path):
    """`@batched(observers=[Recorder(...)])` is enough: the end of the program writes the rest."""
    script = tmp_path / "script.py"
    script.write_text(
        "import asyncio\n"
        "from adaptive_batching import Recorder, batched\n"
        "@batched(observers=[Recorder('out.csv.gz')])\n"
        "async def same(items):\n"
        "    return items\n"
        "async def main():\n"
        "    await same.map(range(1000))\n"
        "asyncio.run(main())\n"
    )
    subprocess.run([sys.executable, script], check=True, cwd=tmp_path, env=_with_this_package())
    assert len(rows(tmp_path / "out.csv.gz")) == 1000


def _with_this_package():
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
