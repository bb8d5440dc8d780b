"""The benchmarks run, and say what they found; what they find is no test's business."""

import asyncio
import json
import shutil

import pytest
from click.testing import CliRunner

from adaptive_batching.bench import simulator
from adaptive_batching.bench.calls import BareBatcher, no_op
from adaptive_batching.cli import main


def run(*arguments):
    quick = [] if "walk" in arguments else ["--quick"]
    result = CliRunner().invoke(main, ["bench", *arguments, *quick])
    assert result.exit_code == 0, result.output
    return result.stdout


def reports(*arguments):
    answer = json.loads(run(*arguments, "--format", "json"), parse_constant=pytest.fail)
    for report in answer["reports"]:
        assert report["title"]
        for verdict in report["verdicts"]:
            assert set(verdict) == {"what", "measured", "required", "met"}
    return answer["reports"]


def test_growth() -> None:
    """Two rows for each of ten kinds of crowds, and a verdict on each."""
    (report,) = reports("growth")
    assert [row["how many"] for row in report["rows"]] == [10, 1000] * 10
    assert len(report["verdicts"]) == 10
    assert all(row["submit (µs)"] > 0 for row in report["rows"])


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_calls(loop):
    """A row for one, many and very many callers, verdicts on two of them."""
    if loop == "uvloop":
        pytest.importorskip("uvloop")
    (report,) = reports("calls", "--loop", loop)
    assert loop in report["title"]
    assert [row["callers"] for row in report["rows"]] == [1, 64, 1000]
    assert all(value > 0 for row in report["rows"] for value in row.values())
    assert [verdict["what"] for verdict in report["verdicts"]] == ["64 callers", "1000 callers"]


def test_workers():
    """Ours, the bare one and the standard library's; a small batch and two large arrays."""
    (report,) = reports("workers")
    rows = {(row["batch"], row["way"]): row for row in report["rows"]}
    ways = {row["way"] for row in report["rows"]}
    assert ways >= {"WorkerPool", "bare socket pair", "ProcessPoolExecutor"}
    assert set(rows) == {(batch, way) for batch in ("1 kB", "600 KiB", "10 MiB") for way in ways}
    assert all(
        row["times bare"] == 1 for (_, way), row in rows.items() if way == "bare socket pair"
    )
    assert all(0 < row["p50 µs"] <= row["p99 µs"] for row in rows.values())
    assert [verdict["what"] for verdict in report["verdicts"]] == ["1 kB", "600 KiB", "10 MiB"]


def test_pipeline():
    """Three stages and the slowest of them, with and without work."""
    (report,) = reports("pipeline")
    assert len(report["rows"]) == 4
    assert all(row["items/s"] > 0 for row in report["rows"])
    assert [verdict["what"] for verdict in report["verdicts"]] == ["pipeline"]


def test_cooperative():
    """Three ways to ask, and what threads can do at all."""
    (report,) = reports("cooperative")
    ways = {row["way"]: row for row in report["rows"]}
    assert len(ways) == 5
    assert ways["one lock, no batches"]["mean batch size"] == 1
    assert all(row["calls/s"] > 0 for row in ways.values())


def test_cooperative_stress():
    """Every call gets its own answer."""
    (report,) = reports("cooperative", "--stress")
    assert all(verdict["met"] for verdict in report["verdicts"])


def test_simulator_as_a_table():
    """A line for each policy with and without a promise, then the verdicts."""
    lines = run("simulator").splitlines()
    assert lines[0].startswith("simulator: 4 workers")
    assert sum("cork " in line for line in lines) == 2
    assert sum("required at least 200,000 jobs/s" in line for line in lines) == 2
    assert sum("required at least 400,000 jobs/s" in line for line in lines) == 2


def http(part):
    (report,) = reports("http", "--part", part)
    assert report["title"].partition(":")[0] == part
    return report


def test_http_throughput():
    """New heads first; nothing fails, and what the servers compute is counted."""
    report = http("throughput")
    rows = {row["server"]: row for row in report["rows"]}
    ours, bare = ["in process", "one worker process"], ["bare aiohttp", "bare Protocol"]
    again = ["one worker process, same heads", "bare aiohttp, same heads"]
    assert list(rows) == ours + bare + again
    assert all(row["failed"] == 0 < row["requests/s"] for row in rows.values())
    assert all(row["CPU µs/request"] > 0 for row in rows.values())
    assert rows["bare aiohttp"]["times bare"] == rows["bare aiohttp"]["times its CPU"] == 1
    assert [verdict["what"] for verdict in report["verdicts"]] == [*ours, "same heads"]


def test_http_latency():
    """Both policies, everything answered."""
    report = http("latency")
    rows = report["rows"]
    assert [row["policy"] for row in rows] == ["cork", "greedy"]
    assert [verdict["what"] for verdict in report["verdicts"]] == [
        "mean at 200/s", "p50 at 200/s", "p99 at 200/s"
    ]  # fmt: skip
    assert all(row["mean ms"] > 5 for row in rows)
    assert all(row["not answered"] == 0 for row in rows)
    assert all(5 < row["p50 ms"] <= row["p99 ms"] for row in rows)


def test_http_closed_loop():
    """Three policies, all of which answer; ratios of the same rounds."""
    report = http("closed-loop")
    assert [row["policy"] for row in report["rows"]] == ["cork", "greedy", "window:5ms"]
    assert all(row["requests/s"] > 0 == row["failed"] for row in report["rows"])
    assert report["rows"][1]["times greedy"] == 1
    assert len(report["verdicts"]) == 2


@pytest.mark.real_servers
def test_http_mosec():
    """Two policies of ours and mosec, which is installed for it: all are answered."""
    report = http("mosec")
    assert [row["server"] for row in report["rows"]] == ["cork", "greedy", "mosec, wait 5 ms"]
    assert all(row["failed"] == 0 < row["CPU µs/request"] for row in report["rows"])
    assert [verdict["what"] for verdict in report["verdicts"]] == ["cork"]


def test_http_observability():
    """The same service with nobody who looks, as it is, and with everybody who may."""
    report = http("observability")
    bare, *_ = rows = report["rows"]
    assert [row["observed by"] for row in rows[:2]] == ["not observed", "service"]
    assert bare["times unobserved"] == 1
    assert all(row["requests/s"] > 0 and not row["failed"] for row in rows)
    assert len(report["verdicts"]) == 1


def test_sidecar_throughput():
    """Behind a proxy that batches and one that doesn't, and nothing behind: all are answered."""
    (report,) = reports("sidecar", "--part", "throughput")
    assert [row["server"] for row in report["rows"]] == ["sidecar", "aiohttp proxy", "bare aiohttp"]
    assert all(row["failed"] == 0 < row["requests/s"] for row in report["rows"])
    assert [verdict["what"] for verdict in report["verdicts"]] == ["requests/s"]


def test_sidecar_tensors():
    """Large tensors through the sidecar and through a proxy that only copies: all are answered."""
    (report,) = reports("sidecar", "--part", "tensors")
    assert [row["server"] for row in report["rows"]] == ["sidecar", "copies only"]
    assert all(row["failed"] == 0 < row["requests/s"] for row in report["rows"])
    assert [verdict["what"] for verdict in report["verdicts"]] == ["requests/s", "64 in a flood"]


def test_sidecar_overload():
    """A sidecar, a service, and a sidecar that has most to do itself; refused, never an error."""
    (report,) = reports("sidecar", "--part", "overload")
    assert len(report["rows"]) == 3
    assert all(row["errors"] == 0 and row["goodput"] < row["sent"] for row in report["rows"])
    assert any(row["goodput"] > 0 for row in report["rows"])  # so short, on whatever machine
    assert len(report["verdicts"]) == 6


def test_sidecar_digits():
    """A real model, directly and through the sidecar: both answer."""
    pytest.importorskip("sklearn")
    (report,) = reports("sidecar", "--part", "digits")
    assert [row["way"] for row in report["rows"]] == ["direct", "sidecar"]
    assert all(row["requests/s"] > 0 for row in report["rows"])


@pytest.mark.skipif(shutil.which("slowhttptest") is None, reason="slowhttptest is not installed")
def test_sidecar_slow_clients():
    """Beside nobody and three kinds of slow clients; good ones are answered by both servers."""
    (report,) = reports("sidecar", "--part", "slow-clients")
    assert [row["server"] for row in report["rows"]] == ["sidecar"] * 4 + ["service"] * 4
    assert all(row["not answered"] == 0 for row in report["rows"])
    assert len(report["verdicts"]) == 6


def test_what_is_not_installed_is_left_out(monkeypatch):
    """And it is said what to install."""
    monkeypatch.setenv("PATH", "")
    result = CliRunner().invoke(main, ["bench", "sidecar", "--part", "slow-clients"])
    assert (result.exit_code, result.stdout) == (0, "")
    assert "slow-clients is left out: slowhttptest is not installed: apt install" in result.stderr


def test_an_unknown_part():
    result = CliRunner().invoke(main, ["bench", "http", "--part", "all"])
    assert result.exit_code == 2
    assert "'all' is not one of 'throughput', 'latency', 'closed-loop', 'mosec'" in result.stderr


def test_an_unknown_loop():
    result = CliRunner().invoke(main, ["bench", "calls", "--loop", "trio"])
    assert result.exit_code == 2
    assert "'trio' is not one of 'asyncio', 'uvloop'" in result.stderr


async def test_a_caller_of_the_bare_batcher_may_leave():
    """As all do at once on Ctrl-C; the others get their results."""
    batcher = BareBatcher(no_op)
    calls = [asyncio.create_task(batcher.submit(number)) for number in range(3)]
    await asyncio.sleep(0)
    calls[1].cancel()
    assert await calls[0] == 0
    assert await calls[2] == 2


def test_ctrl_c(monkeypatch):
    """The exit status is the one that shells expect."""

    async def interrupt(**_):
        raise KeyboardInterrupt

    monkeypatch.setattr(simulator, "measure", interrupt)
    assert CliRunner().invoke(main, ["bench", "simulator"]).exit_code == 130


def test_http_dashboard():
    """Nobody and twenty who watch, who were really told something."""
    (report,) = reports("http", "--part", "dashboard")
    alone, watched = report["rows"]
    assert alone["requests/s"] > 0
    assert alone["kB/s a viewer"] == 0
    assert watched["kB/s a viewer"] > 0
    assert watched["failed"] == 0
    assert [verdict["what"] for verdict in report["verdicts"]] == ["requests/s"]


def test_import():
    """What a decorator brings along takes longer than asyncio, which is a part of it."""
    (report,) = reports("import")
    times = {row["imported"]: row["times asyncio"] for row in report["rows"]}
    assert times["the package"] < 1 < times["batched"]


def test_walk():
    """Files and calls that a request crosses, and which files those are."""
    whole, *each = reports("walk")
    assert [row["request of"] for row in whole["rows"]] == ["service", "sidecar"]
    for row, crossed in zip(whole["rows"], each, strict=True):
        assert crossed["rows"][0]["calls"] >= crossed["rows"][-1]["calls"] >= 0.5
        assert len(crossed["rows"]) == pytest.approx(row["files"], rel=0.2)
        assert any(file["file"].startswith("marshal/") for file in crossed["rows"])
        assert any(file["file"].startswith("core/") for file in crossed["rows"])
    assert len(whole["verdicts"]) == 4


def test_wire():
    """The bodies that cost most, and whether the worst costs little enough."""
    (report,) = reports("wire")
    costs = [row["CPU (ms)"] for row in report["rows"]]
    assert costs == sorted(costs, reverse=True)
    (verdict,) = report["verdicts"]
    assert verdict["measured"] == costs[0]
