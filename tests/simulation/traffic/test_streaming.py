"""Traffic of any length is simulated in the memory of a few seconds of it."""

import json
import random
import subprocess
import sys
import tracemalloc
from datetime import UTC, datetime

import pytest

from adaptive_batching.errors import TraceError
from adaptive_batching.simulation.traffic.traces.format import Request
from adaptive_batching.simulation.traffic.traces.sorting import in_order

PROGRAM = """
import json, sys
from pathlib import Path
from adaptive_batching.core import Limits
from adaptive_batching.simulation import Experiment, Server
from adaptive_batching.simulation.study.traffic import streamed

for path in sys.argv[1:]:
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    traffic = streamed(Path(path), 1e3)
    experiment = Experiment(traffic.arrivals, Server(10e-3, 0.0), Limits(max_queue=100))
    requests = experiment.run("greedy").requests
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").open())
    print(json.dumps([requests, 1024 * int(status["VmHWM"].split()[0])]))
"""


def times(path, requests):
    path.write_bytes(b"".join(b"%d.5\n" % second for second in range(requests)))


def access_log(path, requests):
    lines = (
        f'1.2.3.4 - - [{datetime.fromtimestamp(second, UTC):%d/%b/%Y:%H:%M:%S} +0000] "" 200 -\n'
        for second in range(requests)
    )
    path.write_text("".join(lines))


@pytest.mark.no_cover
@pytest.mark.parametrize("write", [times, access_log])
def test_memory_does_not_grow_with_the_trace(tmp_path, write):
    """Three times the requests, in order or to be sorted, take less than 40 bytes more for each."""
    paths = [tmp_path / "short", tmp_path / "long"]
    for path, requests in zip(paths, (50_000, 150_000), strict=True):
        write(path, requests)
    done = subprocess.run([sys.executable, "-c", PROGRAM, *paths], capture_output=True, check=True)
    (few, before), (many, after) = map(json.loads, done.stdout.splitlines())
    assert (few, many) == (50_000, 150_000)
    assert after - before < 40 * (many - few)


def shuffled(requests):
    """Two at each instant, told apart by their size."""
    rng = random.Random(1)
    return sorted(
        (Request(n // 2 / 8, n + 1, f"{n % 3}") for n in range(requests)),
        key=lambda _: rng.random(),
    )


@pytest.mark.parametrize("requests", [0, 1, 99, 100, 101, 200, 1234])
def test_sorted_in_runs_as_at_once(requests):
    """Through the disk or not: by time, and who came together stays in the order of the file."""
    mixed = shuffled(requests)
    expected = sorted(mixed, key=lambda request: request[0])
    assert list(in_order(iter(mixed), run=100)) == expected


def test_sorting_takes_the_memory_of_a_run():
    """Ten times the requests take little more: 256 of each run are looked at together."""

    def peak(requests):
        tracemalloc.start()
        assert (
            sum(1 for _ in in_order((Request(-n / 8, n) for n in range(requests)), 2048))
            == requests
        )
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    assert peak(50_000) - peak(5000) < 45_000 * 20


def test_a_full_disk(tmp_path, monkeypatch):
    """It says how much it wanted, where, and how to say elsewhere."""
    monkeypatch.setattr(
        "adaptive_batching.simulation.traffic.traces.sorting.TemporaryFile",
        lambda: open("/dev/full", "w+b"),  # noqa: SIM115
    )
    with pytest.raises(TraceError, match=r"20 bytes a request in TMPDIR.*No space left"):
        list(in_order(iter(shuffled(2000)), run=100))
