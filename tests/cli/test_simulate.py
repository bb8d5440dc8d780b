"""The command compares policies, in a table for people and in JSON for programs."""

import gzip
import json
import os
import signal
import subprocess
import sys
from io import StringIO
from pathlib import Path
from time import sleep

import psutil
import pytest
from click.testing import CliRunner
from rich.console import Console

from adaptive_batching.cli import main
from adaptive_batching.cli.commands import simulate
from adaptive_batching.cli.progress import progress
from adaptive_batching.simulation.study import seeds

RECORDED = Path(__file__).parents[2] / "../shared/traces/azure_llm_2023_conv.csv.gz"
MADE = ("--arrivals", "poisson", "--rate", "2000", "--duration", "1")

HUGE = 10**400

CLOSED = ("--arrivals", "closed", "--users", 16, "--duration", 0.5)


def run(*arguments):
    return CliRunner().invoke(main, ["simulate", *map(str, arguments)])


def answer(*arguments):
    result = run(*arguments, "--format", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "trace.csv.gz"
    rows = "".join(f"{index / 10},{index % 3 + 1}\n" for index in range(101))
    path.write_bytes(gzip.compress(f"t_seconds,size\n{rows}".encode()))
    return path


def test_cork_and_greedy_are_compared_by_default():
    """On one worker, with the facts of the traffic."""
    reply = answer(*MADE, "--seed", 3)
    assert [(row["policy"], row["workers"]) for row in reply["rows"]] == [
        ("cork", 1),
        ("greedy", 1),
    ]
    facts = reply["trace"]
    assert (facts["source"], facts["duration"], facts["seed"]) == ("poisson", 1.0, 3)
    assert facts["requests"] == facts["rate"] == reply["rows"][0]["requests"]


def test_a_row_for_each_policy_and_number_of_workers():
    """Both may be repeated."""
    policies = ("--policy", "window:2ms", "--policy", "aimd", "--policy", "greedy")
    reply = answer(*MADE, *policies, "--workers", 1, "--workers", 4)
    assert [(row["policy"], row["workers"]) for row in reply["rows"]] == [
        (policy, workers) for workers in (1, 4) for policy in ("window:2ms", "aimd", "greedy")
    ]


def test_a_trace_is_sped_up(trace):
    """Times are divided by the factor; each request is one item unless told otherwise."""
    reply = answer(trace, "--speedup", 10, "--policy", "greedy")
    assert reply["trace"] == {
        "source": str(trace),
        "requests": 101,
        "items": None,
        "duration": 1.0,
        "rate": 101.0,
        "superpose": 1,
        "rate_scale": 1.0,
        "speedup": 10.0,
        "seed": None,
        "keys": None,
        "tenants": None,
        "costs": None,
    }
    assert reply["rows"][0]["mean_batch_size"] == 1.0


FLOOD = ("--rate", 15000, "--latency", "5ms+0.05ms", "--max-latency", "100ms", "--policy", "cork")


def test_tenants_share_the_workers():
    """A flood is refused and its victim is not, unless all are served as they come; the title says
    that there are tenants, and a table how each fared.
    """
    crowd = ("--tenants", "flood:0.9,quiet:0.1", "--high-priority", "10%")
    fair, unfair = (
        answer(*MADE, *FLOOD, *crowd, *how)["rows"][0]["tenants"] for how in ([], ["--first-come"])
    )
    assert fair["quiet"]["goodput"] > 0.99
    assert unfair["quiet"]["goodput"] < 0.7
    shown = run(*MADE, *FLOOD, *crowd).stdout
    assert "2 tenants" in shown
    assert "quiet" in shown


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--tenants", "flood"], "expected a tenant such as flood:0.9"),
        (["--high-priority", "10%"], "expected --tenants with --high-priority"),
        (["--ageing", "1s"], "expected no --ageing without --tenants"),
        (["--first-come"], "expected no --first-come without --tenants"),
    ],
)
def test_options_of_tenants_that_do_not_go_together(options, complaint):
    """They are refused in a sentence."""
    result = run(*MADE, *options)
    assert result.exit_code == 2
    assert complaint in result.output


def test_sizes_as_items(trace):
    """Then a request of three items takes three places in a batch, or is refused."""
    assert answer(trace, "--sizes", "items")["rows"][0]["mean_batch_size"] == pytest.approx(2, 0.01)
    small = answer(trace, "--sizes", "items", "--max-batch-size", 2)["rows"][0]
    assert small["shed"] == 33
    title = " ".join(run(trace, "--sizes", "items", "--max-batch-size", 2).output.split())
    assert "33 requests refused for more than 2 items (a sidecar would cut them), seed 0" in title


def test_the_same_seed_gives_the_same_answer():
    """Jitter and pauses included; only the speed of the machine varies."""
    noisy = (*MADE, "--jitter", 0.2, "--pause", "1%:10ms", "--seed")

    def rows(seed):
        return [{**row, "jobs_per_second": 0} for row in answer(*noisy, seed)["rows"]]

    assert rows(1) == rows(1)
    assert rows(1) != rows(2)


@pytest.mark.parametrize("kind", ["poisson", "mmpp", "clumped"])
def test_all_conditions_at_once(kind):
    """Every option is taken, and all requests are accounted for."""
    reply = answer(
        "--arrivals", kind, "--rate", 4000, "--duration", "0.5s", "--max-latency", "25ms",
        "--max-batch-size", 16, "--max-queue", 100, "--latency", "2ms+1ms", "--warmup", 0.1,
        "--timer-resolution", "1ms", "--jitter", 0.1, "--workers", 2,
    )  # fmt: skip
    for row in reply["rows"]:
        assert row["requests"] == sum(row[end] for end in ("on_time", "late", "shed", "failed"))
        assert 0 < row["requests"] < reply["trace"]["requests"]
        assert row["shed"] > 0


def test_nothing_to_measure_is_null():
    """Every batch fails, so that nobody is answered: null, never NaN."""
    row = answer(*MADE, "--failures", "100%", "--policy", "greedy")["rows"][0]
    assert (row["goodput"], row["p99_latency"]) == (0.0, None)


def test_a_table_for_people():
    """The traffic on top, a line for each row, no number cut short."""
    result = run(*MADE, "--max-latency", "25ms", "--workers", 1, "--workers", 2)
    assert result.exit_code == 0
    assert "poisson: " in result.output
    assert "within 25 ms, seed 0" in result.output
    assert "…" not in result.output
    assert sum("greedy" in line for line in result.output.splitlines()) == 2


def test_the_title_says_how_the_trace_was_changed(trace):
    """And how many requests a second that makes."""
    title = " ".join(run(trace, "--speedup", 10, "--superpose", 2, "--seed", 7).output.split())
    assert "202 requests in 1 s, 202 requests/s, superpose 2, speedup 10, loop 250 µs late" in title
    assert "no max_latency, seed 7" in title


def test_the_help_shows_defaults():
    """Of every option that has one."""
    shown = " ".join(run("--help").output.split())
    assert "aimd[:STEP], aimd:e2e" in shown
    for default in ("0", "(none)", "0%:0ms", "table", "1; 1<=x<=1000", "cork, greedy"):
        assert f"[default: {default}]" in shown


def test_a_policy_of_the_current_directory(tmp_path):
    """Found without PYTHONPATH, as `serve` finds its service."""
    (tmp_path / "mine.py").write_text(
        "from adaptive_batching.core.policies.greedy import Greedy as Mine\n"
    )
    command = Path(sys.executable).with_name("adaptive-batching")
    arguments = ["simulate", *MADE, "--policy", "mine:Mine"]
    done = subprocess.run([command, *arguments], cwd=tmp_path, capture_output=True, check=True)
    assert b"mine:Mine" in done.stdout


def test_output_that_cannot_be_written():
    """One sentence, no traceback."""
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "adaptive_batching", "simulate", *MADE],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == b"Error: can't write the output: No space left on device\n"


def test_ctrl_c(monkeypatch):
    """The exit status is the one that shells expect."""

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(simulate, "conditions", interrupt)
    assert run(*MADE).exit_code == 130


POLICY = """
class Absent:
    def decide(self, situation):
        return None

    def observe(self, batch):
        pass

class Broken(Absent):
    def decide(self, situation):
        return situation.nonsense
"""


def test_a_policy_that_errs(tmp_path, monkeypatch):
    """One sentence with its name; if it raised, after the place where it did, and nothing else."""
    (tmp_path / "erring.py").write_text(POLICY)
    monkeypatch.syspath_prepend(tmp_path)
    absent, broken = (run(*MADE, "--policy", f"erring:{name}") for name in ("Absent", "Broken"))
    assert absent.exit_code == broken.exit_code == 1
    sentence = "Error: Absent.decide: expected Dispatch, Hold or Shed, got None"
    assert absent.stderr.startswith(sentence)
    assert "return situation.nonsense" in broken.stderr
    assert "scheduler.py" not in broken.stderr
    assert "Error: Broken.decide raised AttributeError" in broken.stderr
    for command in ("compare", "recommend"):
        options = ("--policy", "erring:Absent", *(("--policy", "cork") * (command == "compare")))
        arguments = (command, *MADE, "--max-latency", "50ms", *options)
        assert sentence in CliRunner().invoke(main, arguments).stderr


def test_a_policy_that_errs_in_another_process(tmp_path, monkeypatch):
    """The place where it did comes with it."""
    (tmp_path / "erring_there.py").write_text(POLICY)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(seeds, "_FEW", 0)
    monkeypatch.setattr("psutil.Process.cpu_affinity", lambda self: [0, 1])
    absent, broken = (
        run(*MADE, "--replications", 2, "--policy", f"erring_there:{name}")
        for name in ("Absent", "Broken")
    )
    assert absent.stderr.startswith("Error: Absent.decide: expected Dispatch, Hold or Shed")
    assert broken.stderr.startswith("Traceback")
    assert "return situation.nonsense" in broken.stderr
    assert "The above" not in broken.stderr
    assert "Error: Broken.decide raised AttributeError" in broken.stderr


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (
            "import nowhere_to_be_found",
            "ModuleNotFoundError: No module named 'nowhere_to_be_found' (",
        ),
        ("def (", "SyntaxError: "),
        ("raise SystemExit('not\\nthis')", "SystemExit: not this ("),
        ("def Own():\n    return 1 / 0", "ZeroDivisionError: division by zero ("),
    ],
)
def test_a_policy_that_can_not_be_made(tmp_path, monkeypatch, module, said):
    """What is wrong with it and where, and no traceback of ours."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "unmade", raising=False)
    (tmp_path / "unmade.py").write_text(module)
    result = run(*MADE, "--policy", "unmade:Own")
    assert result.exit_code == 2
    assert f"policy: 'unmade:Own' can't be made: {said}" in result.stderr
    assert "unmade.py, line" in result.stderr


def test_a_trace_in_another_unit(tmp_path):
    """Milliseconds since 1970 taken for seconds leave a float no room for milliseconds."""
    path = tmp_path / "milliseconds.csv"
    path.write_text("t_seconds,size\n1700000000000,1\n1700000000100,1\n")
    for options in ((), ("--stream",)):
        result = run(path, *options)
        assert result.exit_code == 2
        assert "expected times within 1e+10 s, or a --speedup that makes" in result.stderr
        row = answer(path, *options, "--speedup", 1000)["rows"][0]
        assert row["mean_latency"] == pytest.approx(5.55e-3, rel=1e-3)


def test_a_report_that_can_not_be_written(tmp_path):
    """Is said before anything is simulated."""
    result = run("nowhere.csv", "--report", tmp_path / "nowhere" / "out.html")
    assert result.exit_code == 1
    assert "out.html: there is no directory" in result.stderr


def importing(child):
    """Whether it has come as far as NumPy, of which there is plenty."""
    try:
        return any("numpy" in each.path for each in child.memory_maps())
    except psutil.Error:  # it begins or ends just now
        return False


def test_ctrl_c_while_replications_start():
    """Processes that are still importing say nothing about it, and nobody waits for them."""
    made = ("--arrivals", "poisson", "--rate", "9000", "--duration", "60", "--replications", "9")
    arguments = [sys.executable, "-m", "adaptive_batching", "simulate", *made]
    with subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    ) as process:
        while not any(map(importing, psutil.Process(process.pid).children())):
            assert process.poll() is None
            sleep(1e-3)
        os.killpg(process.pid, signal.SIGINT)
        said, _ = process.communicate()
    assert process.returncode == 130
    assert said == b""


def test_ctrl_c_while_a_process_of_a_replication_begins():
    """It is told what to do first: else it says that it ran out of input."""
    made = ("--arrivals", "poisson", "--rate", "9000", "--duration", "60", "--replications", "9")
    arguments = [sys.executable, "-m", "adaptive_batching", "simulate", *made]
    for _ in range(3):
        with subprocess.Popen(
            arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
        ) as process:
            while not psutil.Process(process.pid).children():
                assert process.poll() is None
            os.killpg(process.pid, signal.SIGINT)
            said, _ = process.communicate()
        assert (process.returncode, said) == (130, b"")


def test_ctrl_c_while_a_command_is_imported(trace):
    """Most of the first second is spent there, so that is when it comes."""
    for command in (["simulate"], ["replay", "--live"]):
        arguments = [sys.executable, "-m", "adaptive_batching", *command, str(trace)]
        with subprocess.Popen(
            arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process:
            while not importing(psutil.Process(process.pid)):
                assert process.poll() is None
                sleep(1e-3)
            process.send_signal(signal.SIGINT)
            said, _ = process.communicate()
        assert (process.returncode, said) == (130, b"")


def test_a_lone_request(tmp_path):
    """Is one request, and not one requests."""
    path = tmp_path / "lone.csv"
    path.write_text("t_seconds,size\n0,1\n")
    assert "1 request in 0 s" in run(path).output


def test_what_cannot_be_seen_in_a_header_is_shown(tmp_path):
    """A second byte order mark is no part of any format."""
    path = tmp_path / "marked.csv"
    path.write_text("\ufeff\ufefft_seconds,size\n0,1\n")
    assert r"got '\ufefft_seconds,size'" in run(path).stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Usage: "),
        (("--workers", 2), "expected a TRACE or --arrivals, got neither"),
        (("TRACE", *MADE), "expected no --arrivals with a TRACE, got poisson"),
        (("TRACE", "--rate", 5), "expected no --rate with a TRACE, got 5.0"),
        (("TRACE", "--speedup", 0), "speedup: expected a positive number from 1e-09 to 1e+09, got"),
        (("TRACE", "--speedup", "1e300"), "to 1e+09, got 1e+300"),
        (("TRACE", "--speedup", "1e-300"), "to 1e+09, got 1e-300"),
        (("TRACE", "--speedup", "nan"), "to 1e+09, got nan"),
        (("TRACE", "--rate-scale", "1e300"), "rate-scale: expected a positive number and 1e+08"),
        (("TRACE", "--superpose", HUGE), "superpose: expected 1 copy or more and 1e+08 requests"),
        ((*MADE, "--rate", "1e300"), "expected at most 1e+08 requests, got a rate of 1e+300"),
        ((*MADE, "--duration", "1e300"), "expected at most 1e+09 s, got '1e300'"),
        ((*MADE, "--latency", "5ms+1e300s"), "expected at most 1e+09 s, got '1e300s'"),
        (
            (*MADE, "--latency", f"1:5ms,{HUGE}:6ms"),
            "table: expected sizes of 1,000,000,000,000,000",
        ),
        (
            (*MADE, "--pad-to", f"1,{HUGE}"),
            "'--pad-to': expected sizes of 1,000,000,000,000,000,000",
        ),
        (
            (*MADE, "--drift", "1000001x@0s"),
            "drift: expected a positive factor of 1e+06 at the most",
        ),
        ((*MADE, "--jitter", "1e300"), "jitter: expected a sigma of 10 at the most, got 1e+300"),
        ((*MADE, "--workers", 1_000_000), "1000000 is not in the range 1<=x<=1000"),
        ((*MADE, "--worker", "1001x5ms+1ms"), "expected 1000 --worker at the most, got 1001"),
        ((*MADE, "--replications", HUGE), "is not in the range 1<=x<=10000"),
        ((*MADE, "--max-batch-size", HUGE), "is not in the range x<=1000000000000000000"),
        ((*MADE, "--retries", HUGE), "retries: expected 100 at the most"),
        ((*MADE, "--retries", 0), "retries: expected at least 1, got 0"),
        ((*CLOSED, "--users", 100_001), "users: expected 1 to 100,000, got 100001"),
        (
            (*CLOSED, "--duration", "1e9"),
            "expected at most 1e+09 requests, got 16 users for 1e+09 s",
        ),
        (("TRACE", "--speedup", "fast"), "'fast' is not a valid float"),
        ((*MADE, "--speedup", 2), "expected no --speedup without a TRACE, got 2.0"),
        (("nowhere.csv",), "nowhere.csv: expected a readable file, got No such file"),
        ((__file__,), "line 1: expected one of the header 't_seconds,size', "),
        (("--arrivals", "uniform"), "'uniform' is not one of"),
        (("--arrivals", "poisson", "--rate", 5), "with --arrivals poisson, got no --duration"),
        (("--arrivals", "poisson", "--duration", 5), "with --arrivals poisson, got no --rate"),
        ((*MADE, "--rate", -5), "rate: expected a positive number, got -5.0"),
        ((*MADE, "--rate", 1e12), "expected at most 1e+08 requests"),
        ((*MADE, "--duration", "long"), "expected a duration with a unit"),
        ((*MADE, "--duration", "nan"), "expected 0 seconds or more, got 'nan'"),
        ((*MADE, "--policy", "magic"), "policy: expected one of cork, greedy"),
        ((*MADE, "--policy", "window:2"), "policy: 'window:2': expected a duration with a unit"),
        ((*MADE, "--latency", "1:5"), "expected a duration with a unit"),
        ((*MADE, "--latency", "8:5ms,1:3ms"), "table: expected increasing sizes"),
        ((*MADE, "--pad-to", "8,4"), "'--pad-to': expected increasing sizes from 1, got 8,4"),
        ((*MADE, "--drift", "2x"), "expected [WORKER:]FACTORx@TIME[-TIME] such as 2x@6s, got '2x'"),
        (
            (*MADE, "--drift", "2:2x@0s", "--workers", 2),
            "on a worker below 2, got 2",
        ),
        ((*MADE, "--backoff", "0s"), "expected --retries with --backoff"),
        ((*MADE, "--idempotent"), "expected --failures or --crashes with --idempotent"),
        (("TRACE", "--rate", 0), "expected no --rate with a TRACE, got 0.0"),
        ((*MADE, "--cold-start", "5"), "expected BATCHES:DURATION such as 5:200ms, got '5'"),
        ((*MADE, "--failures", "some"), "expected a percentage such as 99%, got 'some'"),
        ((*MADE, "--shared-device", "1"), "expected a percentage such as 99%, got '1'"),
        ((*MADE, "--failures", "1%", "--limit"), "expected durations that depend on the size"),
        ((*MADE, "--replications", 0), "0 is not in the range 1<=x<=10000"),
        ((*MADE, "--replications", 2, "--limit"), "expected no --limit with --replications"),
        ((*MADE, "--latency", "5"), "expected 5ms, or FIXED+PER_ITEM such as 5ms+0.05ms"),
        ((*MADE, "--pause", "often"), "expected PERCENT:DURATION such as 0.5%:10ms, got 'often'"),
        ((*MADE, "--pause", "1ms/0s"), "expected a mean time between pauses of 1e-06 s or more"),
        ((*MADE, "--pause", "10/2s"), "expected a duration with a unit"),
        ((*MADE, "--pause", "200%:1ms"), "pause_probability: expected 0 to 1, got 2.0"),
        ((*MADE, "--jitter", "nan"), "jitter: expected a finite number of 0 or more, got nan"),
        ((*MADE, "--max-latency", 25), "expected a duration with a unit"),
        ((*MADE, "--max-latency", "0ms"), "max_latency: expected a positive number of seconds"),
        (
            (*MADE, "--max-batch-size", 0),
            "max_batch_size: expected at least 1 item, as a whole number, got 0",
        ),
        (
            (*MADE, "--max-queue", 0),
            "max_queue: expected at least 1 item, as a whole number, got 0",
        ),
        ((*MADE, "--workers", 0), "0 is not in the range 1<=x<=1000"),
        ((*MADE, "--seed", -1), "-1 is not in the range x>=0"),
        ((*MADE, "--timer-resolution", "1"), "expected a duration with a unit"),
        ((*MADE, "--keys", "many"), "expected recorded, a number of keys such as 8, or zipf:8"),
        ((*MADE, "--keys", "recorded"), "expected a TRACE with --keys recorded, got none"),
        ((*MADE, "--key-cost", "1,8"), "expected --keys with --key-cost, got costs 1, 8"),
        ((*MADE, "--keys", "3", "--key-cost", "1,8"), "expected 3 multiples, such as 1,8 for two"),
        ((*MADE, "--keys", "2", "--key-cost", "a=8"), "expected 2 multiples, such as 1,8 for two"),
        ((*MADE, "--keys", "2", "--key-cost", "1,b=8"), "expected multiples such as 1,8, or a=1"),
        ((*MADE, "--keys", "2", "--key-cost", "1,0"), "expected a positive multiple of 1e+06"),
        ((*MADE, "--keys", "0"), "keys: expected 1 to 10,000 of them, got 0"),
        ((*MADE, "--crashes", "1%"), "expected PERCENT:DURATION such as 0.5%:10ms, got '1%'"),
        ((*MADE, "--crashes", "200%:1s"), "crashes: expected a share of 0 to 1, got 2.0"),
        ((*MADE, "--loop-delay", "1"), "expected a duration with a unit"),
        ((*MADE, "--dispatchers", 0), "0 is not in the range 1<=x<=1000"),
        ((*MADE, "--dispatchers", 2), "workers: expected at least one for each of 2 dispatchers"),
        ((*MADE, "--balance", "least"), "expected no --balance with one dispatcher, got least"),
        ((*MADE, "--shared-workers"), "expected no --shared-workers with one dispatcher"),
        ((*MADE, "--cost", "many"), "expected recorded, tokens, lognormal:MEDIAN,SIGMA"),
        ((*MADE, "--cost", "tokens"), "expected a TRACE with --cost tokens, got none"),
        ((*MADE, "--latency", "5ms+1us/token"), "or a trace with costs, got durations that"),
        ((*MADE, "--padded"), "with --stream), or a trace with costs, got --padded alone"),
        (
            (*MADE, "--max-batch-cost", 9),
            "expected --cost, or a trace with costs, got --max-batch-cost 9 alone",
        ),
        (
            (*MADE, "--hide-sizes"),
            "expected --pad-to, or a recording that shows sizes, got --hide-sizes alone",
        ),
        (
            (*MADE, "--pad-to", "8,16", "--max-batch-size", 4),
            "--max-batch-size: expected one of --pad-to 8,16, or to be left out beside it, got 4",
        ),
        ((*MADE, "--sizes", "1,2,4"), "the sizes that a model runs are --pad-to 1,2,4"),
        ((*MADE, "--sizes", "all"), "expected ignore, items, tokens or cost, got 'all'"),
        (
            (*MADE, "--hide-costs"),
            "expected --cost, or a trace with costs, got --hide-costs alone",
        ),
        (
            (*MADE, "--cost", "lognormal:9,1", "--hide-costs", "--max-batch-cost", 9),
            "expected no --max-batch-cost with --hide-costs, got 9",
        ),
        (
            (*MADE, "--cost", "lognormal:9,1", "--latency", "5ms+1us/token", "--limit"),
            "expected durations that depend on the size alone, got costs",
        ),
        (("TRACE", "--sizes", "items", "--cost", "tokens"), "expected a column of costs, or no"),
        (("TRACE", "--trace-format", "times", "--keys", "recorded"), "got times, which has none"),
        (("TRACE", "--keys", "recorded"), "trace.csv.gz, its keys: expected some, got none"),
        (("TRACE", "--keys", "recorded", "--stream"), "its keys: expected some, got none"),
        (("TRACE", "--users", 5), "expected no --users with a TRACE, got 5"),
        (("TRACE", "--superpose", 0), "superpose: expected 1 copy or more"),
        (("TRACE", "--rate-scale", 1e-9), "expected a factor that leaves a request"),
        (("TRACE", "--stream", "--superpose", 2), "expected no --superpose with --stream, got 2"),
        (("TRACE", "--stream", "--speedup", 0), "speedup: expected a positive number from 1e-09"),
        (("TRACE", "--stream", "--limit"), "limit: expected arrivals that are known"),
        (("TRACE", "--trace-format", "times"), "line 1: expected a finite number of seconds"),
        ((*MADE, "--sizes", "items"), "expected no --sizes without a TRACE, got items"),
        ((*MADE, "--think", "1ms"), "expected no --think with --arrivals poisson"),
        ((*CLOSED, "--rate", 5), "expected no --rate with --arrivals closed, got 5.0"),
        ((*CLOSED, "--limit"), "limit: expected arrivals that are known, got users or a stream"),
        (CLOSED[:-2], "expected --users and --duration with --arrivals closed, got no --duration"),
        ((*CLOSED, "--turnaround", "0s"), "expected more than 0 seconds together, got 0"),
        ((*CLOSED, "--think", "5ms-1ms"), "expected a range of 0 seconds or more"),
        ((*MADE, "--limit", "--workers", 1, "--workers", 2), "expected one --workers with --limit"),
        ((*MADE, "--format", "xml"), "'xml' is not one of"),
        (("TRACE", "--load", 2), "of more traffic by --rate-scale of a TRACE, --rate or --users"),
    ],
)
def test_usage_errors(trace, arguments, message):
    """Status 2, nothing on stdout, and what was expected and given on stderr."""
    result = run(*(trace if argument == "TRACE" else argument for argument in arguments))
    assert result.exit_code == 2
    assert result.stdout == ""
    assert message in result.stderr


def test_a_real_process(trace):
    """`python -m adaptive_batching simulate` prints JSON and nothing else."""
    command = [sys.executable, "-m", "adaptive_batching", "simulate", str(trace)]
    done = subprocess.run([*command, "--format", "json"], capture_output=True, check=True)
    assert len(json.loads(done.stdout)["rows"]) == 2
    assert done.stderr == b""


@pytest.mark.skipif(not RECORDED.is_file(), reason="the recorded traces are not beside the project")
def test_a_recorded_trace():
    """An hour of real traffic, sped up, is answered in time by four workers."""
    conditions = ("--max-latency", "25ms", "--workers", 4, "--speedup", 200)
    for row in answer(RECORDED, *conditions)["rows"]:
        assert row["requests"] == 19_366
        assert row["goodput"] > 0.99


def test_a_limit():
    """What who knows all arrivals could have done, beside what the policies did."""
    overload = ("--arrivals", "poisson", "--rate", 9400, "--duration", 0.5, "--max-latency", "25ms")
    reply = answer(*overload, "--limit")
    assert reply["limit"]["kind"] == "exact"
    assert reply["limit"]["mean_latency"] is None
    assert max(row["goodput"] for row in reply["rows"]) <= reply["limit"]["goodput"] < 0.95
    shown = run(*overload, "--limit", "--workers", 2).output
    assert "(upper bound)" in shown
    assert "of limit" in shown


def test_the_least_mean():
    """For Poisson traffic and one worker, with a late loop and without."""
    late = answer(*MADE, "--limit")
    least, rows = late["limit"]["mean_latency"], late["rows"]
    assert least == pytest.approx(8.38e-3 + 0.5e-3, rel=0.02)
    assert least < 1.05 * min(row["mean_latency"] for row in rows)
    assert answer(*MADE, "--limit", "--loop-delay", "0ms")["limit"] == {
        "goodput": 1.0,
        "kind": "exact",
        "mean_latency": pytest.approx(8.38e-3, rel=0.01),
        "relaxed": [],
    }


def test_pauses_of_a_worker_take_from_its_time():
    """A tenth of it, whatever the size of batches; by default there are none."""
    options = (*MADE, "--latency", "0ms+0.4ms", "--policy", "greedy")
    calm, paused = (answer(*options, *pause)["rows"][0] for pause in ((), ("--pause", "10ms/90ms")))
    assert paused["mean_latency"] > calm["mean_latency"] + 2e-3
    assert paused["requests"] == calm["requests"]


def test_no_loop_is_perfect_unless_it_is_said(tmp_path):
    """The delay is a live loop's, or the recorded one's, or what was asked for; the title tells."""
    assert answer(*MADE)["loop_delay"] == 0.25e-3
    assert answer(*MADE, "--replications", 2)["loop_delay"] == 0.25e-3
    path = tmp_path / "model.json"
    path.write_text('{"table":[[1,0.005],[2,0.006]],"residuals":[0.0],"loop_delay":0.001}')
    recorded = answer(*MADE, "--latency-from", path)
    assert recorded["loop_delay"] == 1e-3
    assert "loop 1 ms late, no max_latency" in run(*MADE, "--latency-from", path).output
    ideal = ("--loop-delay", "0ms")
    assert answer(*MADE, "--latency-from", path, *ideal)["loop_delay"] == 0
    assert " late" not in run(*MADE, *ideal).output.splitlines()[0]


def test_the_delay_of_a_recorded_loop_is_not_counted_twice(tmp_path):
    """It is in the recorded duration: a lone request takes that, and its own way to the worker."""
    path, trace = tmp_path / "model.json", tmp_path / "trace.csv"
    path.write_text('{"table":[[1,0.005],[2,0.006]],"residuals":[0.0],"loop_delay":0.001}')
    trace.write_text("t_seconds,size\n0,1\n1,1\n")
    row = answer(trace, "--latency-from", path, "--policy", "greedy")["rows"][0]
    assert row["mean_latency"] == pytest.approx(6e-3)


def test_streaming_says_the_same(trace):
    """Without the facts that are known only at the end."""
    kept = answer(trace, "--speedup", 10, "--sizes", "items")
    streamed = answer(trace, "--speedup", 10, "--sizes", "items", "--stream")
    assert streamed["trace"]["requests"] is None
    assert streamed["trace"]["speedup"] == 10.0
    for one, other in zip(kept["rows"], streamed["rows"], strict=True):
        assert one["on_time"] == other["on_time"]
        assert one["mean_latency"] == pytest.approx(other["mean_latency"])
    assert "streamed" in run(trace, "--stream").output


def test_denser_traffic(trace):
    """Copies over one another, and more requests on the same clock."""
    facts = answer(trace, "--superpose", 4, "--rate-scale", 2.5, "--policy", "greedy")["trace"]
    assert (facts["superpose"], facts["rate_scale"], facts["duration"]) == (4, 2.5, 10.0)
    assert facts["requests"] == pytest.approx(1010, rel=0.05)


def test_closed_loop():
    """Users who wait for their answers, told in the title and counted by answers a second."""
    reply = answer(*CLOSED, "--think", "0s", "--turnaround", "0.3ms-2.3ms")
    assert reply["trace"]["source"] == "closed"
    assert reply["trace"]["requests"] is None
    cork, greedy = (row["throughput"] for row in reply["rows"])
    assert cork > 1.1 * greedy
    shown = run(*CLOSED).output
    assert "closed loop: 16 users, think 0s, turnaround 300µs-2.3ms, 500 ms" in shown


def test_tokens(tmp_path):
    """Sizes may count tokens; limits and durations then count them too."""
    path = tmp_path / "azure"
    rows = "".join(f"2023-11-16 18:00:00.{index:03},1000,50\n" for index in range(100))
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + rows)
    conditions = ("--latency", "5ms+0.001ms", "--max-batch-size", 4200)
    for measure, largest in (("tokens", 4000), ("cost", 4200)):
        rows = answer(path, *conditions, "--sizes", measure)["rows"]
        assert largest / 2 < rows[0]["mean_batch_size"] <= largest


def test_sizes_that_the_scheduler_is_told():
    """It knows what the model pads to, and both keep within the last of them."""
    options = ("--arrivals", "poisson", "--rate", 2400, "--duration", "5s", "--max-latency", "31ms")
    steps = ("--latency", "5ms+0.3ms", "--pad-to", "8,16,32,64", "--policy", "cork")
    [known] = answer(*options, *steps)["rows"]
    [hidden] = answer(*options, *steps, "--hide-sizes")["rows"]
    assert known["goodput"] > hidden["goodput"] + 0.01
    few = ("--latency", "5ms+0.3ms", "--pad-to", "8,16", "--policy", "greedy", "--rate", 10_000)
    assert answer(*options, *few)["rows"][0]["mean_batch_size"] <= 16
    assert answer(*options, *few, "--hide-sizes")["rows"][0]["mean_batch_size"] <= 16
    larger = (*few, "--hide-sizes", "--max-batch-size", 30)
    assert answer(*options, *larger)["rows"][0]["mean_batch_size"] > 16


def test_batches_are_as_large_as_the_largest_size_unless_it_is_said():
    """As in a service with these sizes; the powers of two have no largest."""
    flood = ("--arrivals", "poisson", "--rate", 50_000, "--duration", "0.1s", "--latency", "9ms")
    largest = {
        sizes: answer(*flood, "--policy", "greedy", "--pad-to", sizes)["rows"][0]["mean_batch_size"]
        for sizes in ("8,128", "pow2")
    }
    assert largest["8,128"] > 64 >= largest["pow2"] > 32
    said = run(*flood, "--pad-to", "pow2", "--max-batch-size", 48).output
    assert "expected one of --pad-to the powers of two, or to be left out beside it, got 48" in said


def test_workers_of_all_kinds():
    """Measured and padded, drifting, cold, failing and sharing a device."""
    plain, padded = (
        answer(*MADE, "--latency", "1:5ms,64:8ms", *more)["rows"][1]["mean_latency"]
        for more in ((), ("--pad-to", "64"))
    )
    assert padded > 1.1 * plain
    harsh = ("--drift", "2x@0.5s", "--drift", "0.5x@0.6s-0.8s", "--cold-start", "5:50ms")
    shared = ("--failures", "10%", "--shared-device", "30%", "--workers", 2)
    for row in answer(*MADE, *harsh, *shared)["rows"]:
        assert row["failed"] > 0
        assert row["requests"] == sum(row[end] for end in ("on_time", "late", "shed", "failed"))
    assert "failed" in run(*MADE, "--failures", "10%").output
    assert "failed" not in run(*MADE).output


def test_batches_that_fail_run_again_in_parts():
    """Most requests of batches that failed by chance are answered after all, by any dispatcher."""
    failing = (*MADE, "--failures", "20%", "--policy", "greedy", "--dispatchers", 2, "--workers", 2)
    (once,) = answer(*failing)["rows"]
    (again,) = answer(*failing, "--idempotent")["rows"]
    assert again["failed"] < once["failed"] / 2
    assert again["requests"] == once["requests"]


def test_replications():
    """Means with intervals, and the second policy against the first."""
    reply = answer(*MADE, "--replications", 3, "--policy", "greedy", "--policy", "cork")
    assert reply["replications"] == 3
    greedy, cork = reply["rows"]
    assert greedy["change"] == {}
    assert greedy["figures"]["mean_latency"]["half_width"] > 0
    assert abs(cork["change"]["mean_latency"]["mean"]) < 0.05
    shown = run(*MADE, "--replications", 2, "--policy", "greedy").output
    assert "2 seeds from 0, ± 95 % confidence, change against greedy" in shown
    assert "…" not in shown
    shared = answer(*MADE, "--tenants", "a:0.9,b:0.1", "--replications", 2, "--policy", "greedy")
    assert shared["rows"][0]["figures"]["goodput"]["mean"] > 0


def test_keys_by_lot():
    """The first comes most often; each has figures of its own, and the title says so."""
    keyed = (*MADE, "--keys", "zipf:4", "--policy", "greedy", "--max-latency", "50ms")
    reply = answer(*keyed)
    assert reply["trace"]["keys"] == "4 keys by Zipf^1"
    figures = reply["rows"][0]["keys"]
    assert list(figures) == ["0", "1", "2", "3"]
    assert sum(each["requests"] for each in figures.values()) == reply["rows"][0]["requests"]
    shown = run(*keyed).output
    assert "4 keys by Zipf^1, loop 250 µs late, within 50 ms, seed 0" in shown
    assert "key   requests   goodput" in shown


def test_keys_that_cost_differently(tmp_path):
    """Of two drawn keys the second takes twenty times as long; of recorded ones the one named."""
    options = ("--latency", "1ms+0ms", "--policy", "greedy", "--max-latency", "15ms")
    drawn = answer(*MADE, *options, "--keys", 2, "--key-cost", "1,20")
    assert drawn["trace"]["keys"] == "2 keys (costs 1, 20)"
    figures = drawn["rows"][0]["keys"]
    assert figures["0"]["goodput"] > figures["1"]["goodput"] == 0
    path = tmp_path / "keyed.csv"
    path.write_text("t_seconds,size,key\n0,1,a\n0.1,1,b\n")
    recorded = answer(path, *options, "--keys", "recorded", "--key-cost", "b=20")
    figures = recorded["rows"][0]["keys"]
    assert {key: each["goodput"] for key, each in figures.items()} == {"a": 1.0, "b": 0.0}
    for costs, got in (("bert=20", "got bert"), ("1,20", "got costs 1, 20")):
        refused = run(path, "--keys", "recorded", "--key-cost", costs)
        assert refused.exit_code == 2
        assert got in " ".join(refused.stderr.split())


def test_brackets_are_no_markup(tmp_path):
    """Paths of an access log may have any, and so may the name of a file."""
    path = tmp_path / "[red]keyed.csv"
    path.write_text("t_seconds,size,key\n0,1,[/b]\n")
    shown = run(path, "--keys", "recorded").output
    assert "[/b]" in shown
    assert "[red]keyed.csv: 1 request in 0 s" in shown.replace("\n", "")


def test_a_long_key_leaves_room_for_its_figures(tmp_path):
    """Azure's are two hashes: the table has both ends, JSON has them whole."""
    path, key = tmp_path / "keyed.csv", "a" * 64 + "/" + "b" * 64
    path.write_text(f"t_seconds,size,key\n0,1,{key}\n")
    options = (path, "--keys", "recorded", "--policy", "greedy")
    shown = run(*options).output
    assert f"{'a' * 30}…{'b' * 9}" in shown
    assert "…  " not in shown  # a figure that was cut
    assert list(answer(*options)["rows"][0]["keys"]) == [key]


KEYED = (("a", ""), ("b", 0.002))


def test_recorded_keys_and_deadlines(tmp_path):
    """Two keys never share a batch; who waits no longer than 2 ms is answered too late."""
    path = tmp_path / "keyed.csv"
    rows = "".join(f"{i},1,{key},{own}\n" for i in range(20) for key, own in KEYED)
    path.write_text("t_seconds,size,key,max_latency\n" + rows)
    options = (path, "--policy", "greedy", "--workers", 2, "--max-latency", "10ms")
    kept = answer(*options, "--keys", "recorded")["rows"][0]
    assert kept["mean_batch_size"] == 1
    assert kept["goodput"] == 0.5
    assert {key: each["goodput"] for key, each in kept["keys"].items()} == {"a": 1.0, "b": 0.0}
    streamed = answer(*options, "--keys", "recorded", "--stream")["rows"][0]
    assert (streamed["goodput"], streamed["mean_batch_size"], streamed["keys"]) == (0.5, 1, None)
    mixed = answer(*options)["rows"][0]
    assert (mixed["mean_batch_size"], mixed["keys"]) == (2, None)
    assert "within 10 ms unless recorded" in run(*options).output


def test_several_dispatchers():
    """A queue each is slower than one for all; in front of the same workers it is worst."""
    busy = ("--arrivals", "poisson", "--rate", 12000, "--duration", 0.5, "--max-latency", "25ms")
    four = (*busy, "--workers", 4, "--dispatchers", 4)
    single, *several = (
        answer(*options, "--policy", "greedy")["rows"][0]
        for options in (
            (*busy, "--workers", 4),
            four,
            (*four, "--balance", "random"),
            (*four, "--shared-workers"),
        )
    )
    assert all(row["mean_latency"] > single["mean_latency"] for row in several)
    assert several[-1]["goodput"] < 0.5
    shown = run(*four, "--balance", "least", "--shared-workers").output
    assert "4 dispatchers, shared workers, least" in shown


def test_crashes_and_a_late_loop():
    """Jobs of a dying worker fail and the others wait for its return; lateness comes on top."""
    crashing = answer(*MADE, "--crashes", "5%:200ms", "--policy", "greedy")["rows"][0]
    assert crashing["failed"] > 0
    assert crashing["p99_latency"] > 0.1
    prompt, late = (
        answer(*MADE, "--loop-delay", delay, "--policy", "greedy")["rows"][0]["mean_latency"]
        for delay in ("0ms", "5ms")
    )
    assert late > prompt + 2 * 5e-3


def test_a_bar_for_who_sits_at_a_terminal():
    """Counted on stderr, gone in the end; nothing at all where nobody looks."""
    for looking in (True, False):
        screen = Console(file=StringIO(), force_terminal=looking, force_interactive=looking)
        with progress("replications", 3, screen) as done:
            for _ in range(3):
                done()
        assert ("replications" in screen.file.getvalue()) is looking
        assert ("3/3" in screen.file.getvalue()) is looking


def test_workers_that_differ():
    """As many as are described; of more or fewer, nothing is known."""
    uneven = ("--worker", "2x5ms+0.05ms", "--worker", "20ms+0.2ms", "--drift", "0:2x@0.5s")
    assert [row["workers"] for row in answer(*MADE, *uneven)["rows"]] == [3, 3]
    result = run(*MADE, *uneven, "--workers", 2)
    assert "expected no --workers with --worker" in result.output
    assert "expected workers that are alike" in run(*MADE, *uneven, "--limit").output


def test_nobody_comes_after_the_warm_up():
    """Figures of nothing would be dashes; what was expected is said instead."""
    result = run(*MADE, "--warmup", "5s")
    assert result.exit_code == 2
    assert "warmup: expected less than the traffic's" in result.stderr
    assert "s, got 5 s" in result.stderr


COSTLY = (
    "--arrivals", "poisson", "--rate", 2800, "--duration", 3, "--warmup", 0.5,
    "--cost", "lognormal:45,0.8", "--latency", "4ms+1.2us/token", "--padded",
    "--max-latency", "100ms", "--policy", "cork",
)  # fmt: skip


def test_costs():
    """Dispatchers that know the costs answer all where others lose a tenth; the traffic is one."""
    told, hidden = answer(*COSTLY), answer(*COSTLY, "--hide-costs")
    assert told["trace"] == hidden["trace"]
    assert told["trace"]["costs"] == "costs lognormal:45,0.8"
    assert told["rows"][0]["goodput"] > 0.99
    assert hidden["rows"][0]["goodput"] < 0.9
    assert "costs lognormal:45,0.8 (padded), loop" in run(*COSTLY).output


def test_the_same_arrivals_whatever_they_cost():
    """Costs have random numbers of their own."""
    policies = ("--policy", "greedy")
    free = answer(*MADE, *policies)
    costly = answer(*MADE, *policies, "--cost", "lognormal:45,0.8", "--hide-costs")
    speeds = ("jobs_per_second",)
    for row, other in zip(free["rows"], costly["rows"], strict=True):
        assert {k: v for k, v in row.items() if k not in speeds} == {
            k: v for k, v in other.items() if k not in speeds
        }


def test_a_bound_for_costs():
    """No batch costs more, and a request that would alone is refused."""
    options = ("--cost", "bimodal:10,100,10%", "--max-batch-cost", 50)
    (row,) = answer(*MADE, *options, "--policy", "cork")["rows"]
    assert row["shed"] == pytest.approx(0.1 * row["requests"], rel=0.3)
    assert row["on_time"] + row["shed"] == row["requests"]
    assert row["mean_batch_size"] <= 5


def test_recorded_costs(tmp_path):
    """A column of costs is used unasked; a stream's only if it was asked for."""
    path = tmp_path / "trace.csv"
    path.write_text(
        "t_seconds,cost\n" + "".join(f"{second},{second % 3 + 1}\n" for second in range(30))
    )
    options = (path, "--latency", "5ms+10ms/token", "--loop-delay", "0ms", "--policy", "greedy")
    for more in ((), ("--cost", "recorded", "--stream"), ("--cost", "tokens")):
        reply = answer(*options, *more)
        assert reply["trace"]["costs"] == "recorded costs"
        assert reply["rows"][0]["mean_latency"] == pytest.approx(25e-3)
    told = run(*options, "--stream").stderr
    assert "expected --cost (recorded, with --stream), or a trace with costs" in told


def test_a_column_without_costs(tmp_path):
    """Costs that are all zero are none, and an error where some were asked for."""
    path = tmp_path / "trace.csv"
    path.write_text("t_seconds,cost\n0,0\n1,0\n")
    assert answer(path)["trace"]["costs"] is None
    for stream in ((), ("--stream",)):
        refused = run(path, "--cost", "recorded", *stream)
        assert "its costs: expected some, got none" in refused.stderr
