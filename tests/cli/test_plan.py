"""From a recording to a decision: fit, recommend and compare, as the documentation shows them."""

import csv
import json
import os
import shlex
import threading
import tomllib
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from adaptive_batching.cli import main
from adaptive_batching.cli.commands.sidecar import command as sidecar
from adaptive_batching.cli.options.declared import made
from adaptive_batching.core import Batch, Job, JobOutcome, Limits, Scheduler, make_policy
from adaptive_batching.instrumentation.recording import Recorder
from adaptive_batching.marshal.config.endpoints_file import EndpointSettings
from adaptive_batching.marshal.config.routes import make_route
from adaptive_batching.marshal.config.settings import RouteSettings
from adaptive_batching.marshal.config.toml_file import read_table
from adaptive_batching.simulation import (
    ArrivalStream,
    CostSeconds,
    DrawnCosts,
    Lognormal,
    Server,
    drive,
    poisson,
)

GUIDE = Path(__file__).parents[2] / "docs/how-to/plan/plan.md"
COMMANDS = [
    line.removeprefix("$ adaptive-batching ")
    for line in GUIDE.read_text().splitlines()
    if line.startswith("$ ") and " serve " not in line
]
MODEL = ("--latency", "5.4ms+0.22ms", "--max-latency", "50ms")
USERS = ("--arrivals", "closed", "--users", 32, "--duration", "0.5s", *MODEL)


class _Recording:
    """Records a simulation as a dispatcher would be recorded."""

    def __init__(self, recorder):
        self._recorder = recorder
        self._record = None

    def batch_released(self, batch: Batch) -> None:
        pass

    def batch_ended(self, record):
        self._record = record
        self._recorder.batch_ended(None, record)

    def jobs_ended(self, jobs: list[Job], now: float, outcome: JobOutcome) -> None:
        batch = self._record if outcome is JobOutcome.DONE else None
        self._recorder.jobs_ended(jobs, outcome, now, batch)


@pytest.fixture
def traffic(tmp_path, monkeypatch):
    """Two seconds of a service whose batches take 5.4 ms and 0.22 ms an item."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "traffic.csv.gz"
    scheduler = Scheduler(make_policy("cork"), Limits(64, 50e-3), workers=1)
    service = Server(5.4e-3, 0.22e-3, jitter=0.03).service()
    with Recorder(path, clock=lambda: 0.0) as recorder:
        drive(
            ArrivalStream(poisson(1500.0, 2.0, seed=1)), [scheduler], service, _Recording(recorder)
        )
    return path


def run(*arguments, status=0):
    result = CliRunner().invoke(main, [*map(str, arguments)])
    assert result.exit_code == status, result.output
    return result.output


def answer(*arguments, status=0):
    output = run(*arguments, "--format", "json", status=status)
    return json.loads(output, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))


def as_sidecar(said):
    """The settings of a sidecar that gets the last line of options of a recommendation."""
    [options] = [line for line in said.splitlines() if line.startswith("--max-batch-size ")]
    whole = ["--upstream=http://m:1", "--protocol=json", *shlex.split(options)]
    params = sidecar.make_context("sidecar", whole).params
    settings = made(
        RouteSettings,
        {name: params[name] for name in RouteSettings.__struct_fields__ if name in params},
    )
    make_route("r", settings)
    return settings


def test_what_the_guide_shows(traffic):
    """Every command of it runs as it stands, one after the other."""
    for command in COMMANDS:
        said = run(*shlex.split(command))
        assert ("traffic.csv.gz" if "traffic.csv.gz" in command else "64 users") in said


def test_a_saved_model_is_the_recorded_one(traffic):
    """Its table and its scatter, not those of a line and a textbook's noise."""
    run("fit", traffic, "--save", "model.json")
    options = ("--policy", "cork", "--max-latency", "50ms")
    simulated = answer("simulate", traffic, "--latency-from", "model.json", *options)
    recorded = np.genfromtxt(traffic, delimiter=",", skip_header=1, usecols=3)
    row = simulated["rows"][0]
    assert row["mean_latency"] == pytest.approx(recorded.mean(), rel=0.03)
    assert row["p99_latency"] == pytest.approx(np.quantile(recorded, 0.99), rel=0.1)


def test_a_recording_leads_to_its_own_model(traffic):
    """What is fitted, pasted into simulate, behaves as the recording did."""
    model = answer("fit", traffic)
    assert model["fixed"]["value"] == pytest.approx(5.4e-3, rel=0.05)
    assert model["per_item"]["value"] == pytest.approx(0.22e-3, rel=0.05)
    assert sum(level["batches"] for level in model["levels"]) == model["batches"]
    simulated = answer(
        *("simulate", traffic, *shlex.split(model["options"])),
        *("--policy", "cork", "--max-latency", "50ms"),
    )
    recorded = np.genfromtxt(traffic, delimiter=",", skip_header=1, usecols=3)
    assert simulated["rows"][0]["mean_latency"] == pytest.approx(recorded.mean(), rel=0.05)


def test_the_smallest_recommendation(traffic):
    """Workers, batch limit, all that was tried, and the curve; more traffic takes more workers."""
    reply = answer("recommend", traffic, *MODEL)
    assert reply["recommended"]["workers"] == 1
    assert reply["target"] == {"goodput": 0.99, "max_latency": 0.05, "throughput": None}
    assert reply["short"] == []
    assert [point["scale"] for point in reply["curve"]] == [0.5, 0.75, 0.9, 1, 1.1, 1.25, 1.5, 2]
    four = answer("recommend", traffic, *MODEL, "--rate-scale", 4, "--policy", "greedy")
    assert four["recommended"]["workers"] > 1
    assert not any(each["holds"] for each in four["tried"] if each["workers"] == 1)
    assert four["short"][0]["workers"] == 1
    assert "if they never rest" in four["short"][0]["reasons"][0]


def test_the_settings_to_paste(traffic):
    """The last lines are a program's arguments and a file of endpoints that the service reads."""
    said = run("recommend", traffic, *MODEL, "--policy", "greedy")
    program, _, rest = said.rpartition("in a program: ")[2].partition("[endpoints")
    table = rest.partition("\nor for `sidecar`")[0]
    assert "workers=1, max_latency=0.05, policy='greedy'\n" in program
    settings = tomllib.loads(f"[endpoints{table}")["endpoints"]["/predict"]
    assert read_table("/predict", settings, EndpointSettings).max_latency == 0.05
    route = as_sidecar(said)
    assert (route.policy, route.max_latency) == ("greedy", 0.05)
    assert f"max_batch_size={route.max_batch_size}, " in program


def test_a_recording_brings_its_durations(traffic):
    """Without --latency, batches take as long as they did in the recording, and that is said."""
    options = ("--policy", "cork", "--max-latency", "50ms", "--format", "json")
    result = CliRunner().invoke(main, ["simulate", str(traffic), *options])
    assert result.stderr.startswith(f"batches take as long as in {traffic}: --latency 5.")
    [row] = json.loads(result.stdout)["rows"]
    recorded = np.genfromtxt(traffic, delimiter=",", skip_header=1, usecols=3)
    assert row["mean_latency"] == pytest.approx(recorded.mean(), rel=0.05)


def test_no_batch_is_recommended_that_was_never_recorded(tmp_path):
    """What larger batches take is extrapolated: they are named only where no smaller one holds."""
    path = tmp_path / "traffic.csv"
    with Recorder(path, clock=lambda: 0.0) as recorder:
        scheduler = Scheduler(make_policy("cork"), Limits(6, 50e-3), workers=1)
        service = Server(5e-3, 0.05e-3, jitter=0.03).service()
        times = ArrivalStream(poisson(800.0, 2.0, seed=1))
        drive(times, [scheduler], service, _Recording(recorder))
    options = (path, "--max-latency", "50ms", "--workers", "1")
    known = json.loads(
        CliRunner().invoke(main, [*map(str, ("recommend", *options, "--format", "json"))]).stdout
    )
    assert known["recorded"] == 6
    assert {6, 8, 64} <= {each["max_batch_size"] for each in known["tried"] if each["holds"]}
    assert known["recommended"]["max_batch_size"] == 6
    assert "that hold, up to the largest recorded batch, 6 items, this" in run(
        "recommend", *options
    )
    run("fit", path, "--save", tmp_path / "model.json")
    denser = ("--rate-scale", 3, "--latency-from", tmp_path / "model.json")
    said = run("recommend", *options, *denser)
    assert "Only limits beyond the largest recorded batch hold" in said
    assert "is extrapolated from up to 6;" in said
    padded = answer("recommend", *options, *denser, "--pad-to", "1,4,16,64")
    assert padded["recorded"] == padded["recommended"]["max_batch_size"] == 16


def test_nothing_to_recommend(traffic):
    """Exit status 1, and no recommendation."""
    options = (traffic, *MODEL, "--rate-scale", 8, "--workers", "1..2")
    reply = answer("recommend", *options, status=1)
    assert reply["recommended"] is None
    said = run("recommend", *options, status=1)
    assert "no number of workers was enough" in said
    assert "2 workers: " in said


def test_a_recommendation_for_users(tmp_path):
    """So many who wait for their answers; with a throughput to hold there need be no promise."""
    users = ("--arrivals", "closed", "--users", 64, "--duration", "0.2s", "--policy", "greedy")
    reply = answer("recommend", *users, "--throughput", 5000)
    assert reply["recommended"]["workers"] == 2
    assert reply["target"]["max_latency"] is None
    assert reply["curve"][-1]["users"] == 128
    said = run("recommend", *users, "--throughput", 5000)
    assert "1 worker: " in said
    assert "answers/s, not 5,000" in said
    assert "users" in said


def test_a_policy_that_is_worse_fails_the_build(traffic):
    """Exit status 1 with the reason; the other way round it is good enough."""
    worse = answer("compare", traffic, *MODEL, *policies("cork", "window:20ms"), status=1)
    assert worse["p99_increase"]["mean"] > 0.05
    assert worse["mean_increase"]["mean"] > 0.05
    assert "p99 rose by" in worse["faults"][-1]
    assert len(worse["runs"]) == 5
    assert "Good enough" in run("compare", traffic, *MODEL, *policies("window:20ms", "cork"))


def test_limits_of_a_comparison(traffic):
    """Who allows more gets more."""
    loose = ("--max-goodput-loss", "100%", "--max-p99-increase", "1000%")
    slower = ("compare", traffic, *MODEL, *policies("cork", "window:20ms"), *loose)
    (fault,) = answer(*slower, status=1)["faults"]
    assert "mean latency rose by" in fault
    answer(*slower, "--max-mean-increase", "1000%")


def test_users_who_get_fewer_answers():
    """In a closed loop a slower policy answers everybody, and fewer a second."""
    slower = ("compare", *USERS, *policies("cork", "window:20ms"), "--replications", 2)
    loose = ("--max-mean-increase", "1000%", "--max-p99-increase", "1000%")
    (fault,) = answer(*slower, *loose, status=1)["faults"]
    assert "answers/s fell by" in fault
    answer(*slower, *loose, "--max-throughput-loss", "100%")


def test_nothing_in_time():
    """Neither policy can keep a promise that is shorter than a batch; that is no pass."""
    hasty = ("--latency", "5ms+1ms", "--max-latency", "1ms", *policies("greedy", "aimd"))
    poisson = ("--arrivals", "poisson", "--rate", 500, "--duration", 1)
    said = run("compare", *poisson, *hasty, status=1)
    assert "Fails: neither answered anything in time" in said


def test_the_table_of_a_comparison(traffic):
    """Means over all runs, which are what is judged, with their intervals."""
    said = run("compare", traffic, *MODEL, *policies("cork", "cork"), "--jitter", 0.1)
    assert "5 seeds from 0, ± 95 % confidence" in said
    assert sum("cork" in line and "±" in line for line in said.splitlines()) == 2
    for criterion in ("goodput lost", "answers/s lost", "mean longer", "p99 longer"):
        assert f"{criterion} " in said
    assert "allowed any" in said


def test_the_same_policy_twice(traffic):
    """Pairs share arrivals and luck, so nothing differs."""
    options = (*MODEL, "--jitter", 0.2, "--replications", 3)
    reply = answer("compare", traffic, *options, *policies("cork", "cork"))
    assert reply["goodput_loss"] == reply["p99_increase"] == {"mean": 0, "low": 0, "high": 0}


def policies(*names):
    return [word for name in names for word in ("--policy", name)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "nowhere.csv"], "expected a readable file, got No such file"),
        (["fit", GUIDE], "expected the header 't_seconds,size,cost,latency"),
        (["recommend", GUIDE], "expected one of the header"),
        (["recommend", "traffic.csv.gz", "--latency-from", "nowhere"], "expected a readable file"),
        (["recommend", "traffic.csv.gz", "--latency-from", GUIDE], "expected what `fit --save`"),
        (["recommend", "traffic.csv.gz"], "expected --max-latency"),
        (["recommend", "traffic.csv.gz", *MODEL, "--throughput", 5], "expected --arrivals closed"),
        (["recommend", "traffic.csv.gz", "--throughput", "0"], "expected a positive number"),
        (["recommend", *USERS[:6]], "expected --max-latency or --throughput"),
        (["recommend", "traffic.csv.gz", "--workers", "1..1001"], "expected 1000 at the most"),
        (["recommend", "traffic.csv.gz", "--workers", "8..1"], "expected a range from 1"),
        (["recommend", "traffic.csv.gz", "--workers", "0..2"], "expected a range from 1"),
        (["recommend", "traffic.csv.gz", "--goodput", "0%"], "expected more than 0%"),
        (["recommend", "traffic.csv.gz", "--goodput", "0.99"], "expected a percentage"),
        (["recommend", "traffic.csv.gz", *MODEL, "--stream"], "expected arrivals that are known"),
        (["recommend", "traffic.csv.gz", *MODEL, "--warmup", "9s"], "warmup: expected less than"),
        (["recommend", "traffic.csv.gz", *MODEL, "--drift", "8:2x@1s"], "on a worker below 8"),
        (["compare", "traffic.csv.gz", "--policy", "cork"], "expected --policy twice, got 1"),
        (["compare", "traffic.csv.gz", *policies("cork", "corks")], "corks"),
    ],
)
def test_mistakes_on_the_command_line(traffic, arguments, message):
    """One sentence, exit status 2."""
    assert message in " ".join(run(*arguments, status=2).split())


def test_a_model_that_can_not_be_written(traffic):
    """One sentence, exit status 1."""
    assert "can't write nowhere" in run("fit", traffic, "--save", "nowhere/model.json", status=1)


def test_two_models_are_one_too_many(traffic):
    """Neither is silently left out."""
    run("fit", traffic, "--save", "model.json")
    options = ("--latency", "5ms+1ms", "--latency-from", "model.json")
    assert "got both" in run("simulate", traffic, *options, status=2)


def test_a_recording_without_batches(tmp_path):
    """Nothing can be learned from requests that were all refused."""
    path = tmp_path / "refused.csv.gz"
    with Recorder(path) as recorder:
        recorder.jobs_ended([Job(0.0)], JobOutcome.SHED, 0.0, None)
    for command in ("fit", "simulate"):
        said = " ".join(run(command, path, status=2).split())
        assert "refused.csv.gz: expected 20 batches or more" in said
    assert "say --latency" in said


def recorded_texts(path, server, rate=1800.0):
    """Record three seconds of a service of texts, which was not told their lengths."""
    scheduler = Scheduler(make_policy("cork"), Limits(64, 100e-3), workers=1)
    arrivals, costs = poisson(rate, 3.0, seed=1), DrawnCosts(Lognormal(45.0, 0.8), 1)
    with Recorder(path, clock=lambda: 0.0) as recorder:
        feed = ArrivalStream(arrivals, costs=islice(costs, len(arrivals)))
        drive(feed, [scheduler], server.service(), _Recording(recorder))
    return path


@pytest.fixture
def lengths(tmp_path):
    """A recording of texts that are padded."""
    server = Server(4e-3, 0.0, jitter=0.03, costs=CostSeconds(1.2e-6, padded=True))
    return recorded_texts(tmp_path / "lengths.csv", server)


def test_a_recording_with_costs(lengths):
    """`fit` finds the third coefficient and the padding; simulated with both it is as recorded."""
    fitted = answer("fit", lengths)
    assert fitted["costs"]["padded"] is True
    assert fitted["costs"]["per_cost"]["value"] == pytest.approx(1.2e-6, rel=0.05)
    assert "us/unit --padded" in fitted["options"]
    assert "for each unit of its items times the largest cost" in run("fit", lengths)
    with lengths.open() as file:
        recorded = [float(row["latency_seconds"]) for row in csv.DictReader(file)]
    options = ("--hide-costs", "--max-latency", "100ms", "--policy", "cork", "--format", "json")
    result = CliRunner().invoke(main, ["simulate", str(lengths), *options])
    assert "us/unit --padded" in result.stderr
    said = run("simulate", lengths, "--no-padded", status=2)
    assert "expected --padded, as the recorded batches were, or --latency, got --no-padded" in said
    simulated = json.loads(result.stdout)
    row = simulated["rows"][0]
    assert simulated["trace"]["costs"] == "recorded costs"
    assert row["mean_latency"] == pytest.approx(sum(recorded) / len(recorded), rel=0.1)


def test_a_recording_from_a_pipe(lengths, tmp_path):
    """It is simulated as the file is, by all replications: as it was recorded."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(lengths.read_bytes()))
    writer.start()
    options = ("--max-latency", "100ms", "--policy", "cork", "--replications", 2)
    piped, filed = (run("simulate", path, *options).splitlines() for path in (pipe, lengths))
    writer.join()
    assert piped[-3:] == filed[-3:]
    assert "cork" in "".join(piped[-3:])


def test_a_recording_with_costs_and_sizes(tmp_path):
    """The options that are printed are those that are run, and the sizes are hidden."""
    sizes = (1, 2, 4, 8, 16, 32, 64)
    costs = CostSeconds(5e-6, padded=True, sizes=sizes)
    path = recorded_texts(
        tmp_path / "sizes.csv", Server(2e-3, 0.0, jitter=0.02, costs=costs), 700.0
    )
    options = ("--policy", "cork", "--format", "json")
    result = CliRunner().invoke(main, ["simulate", str(path), *options])
    said, *rest = result.stderr.splitlines()
    printed = shlex.split(said.split(": ", 1)[1])
    pasted = CliRunner().invoke(main, ["simulate", str(path), *printed, *options])
    hidden = CliRunner().invoke(main, ["simulate", str(path), "--hide-sizes", *options])
    rows, same, also = (json.loads(each.stdout)["rows"][0] for each in (result, pasted, hidden))
    assert rows["mean_latency"] == also["mean_latency"]
    assert same["mean_batch_size"] == pytest.approx(rows["mean_batch_size"], rel=0.1)
    assert "--hide-sizes" in printed
    assert any(line.startswith("the sizes are hidden; say --pad-to ") for line in rest)


def test_a_recording_of_requests_with_several_items(tmp_path):
    """They count as recorded, in the plan as well, unless `--sizes ignore` says otherwise."""
    path = tmp_path / "items.csv"
    scheduler = Scheduler(make_policy("cork"), Limits(64, 100e-3), workers=1)
    arrivals = poisson(150.0, 3.0, seed=1)
    sizes = [1 + index % 12 for index in range(len(arrivals))]
    with Recorder(path, clock=lambda: 0.0) as recorder:
        feed = ArrivalStream(arrivals, sizes=sizes)
        drive(feed, [scheduler], Server(2e-3, 1e-3, jitter=0.03).service(), _Recording(recorder))
    simulated = ("simulate", path, "--policy", "cork", "--max-latency", "100ms")
    items, ignored = run(*simulated), run(*simulated, "--sizes", "ignore")
    assert f"{len(arrivals)} requests of {sum(sizes):,} items in" in " ".join(items.split())
    assert f"{len(arrivals)} requests in" in " ".join(ignored.split())
    options = (path, "--latency", "2ms+1ms", "--max-latency", "100ms")
    found = answer("recommend", *options)
    assert found["trace"]["items"] == sum(sizes)
    assert found["recommended"]["max_batch_size"] >= 12
    assert found["tried"] == answer("recommend", *options, "--sizes", "items")["tried"]


def test_what_cost_gains(lengths):
    """The recommendation has `cost=` in it, and says how many more are in time with it."""
    options = ("--max-latency", "100ms", "--rate-scale", 1.5, "--max-batch-cost", 16384)
    said = run("recommend", lengths, *options, "--workers", "1")
    assert "cost=<what an item costs, such as len>, padded=True, max_batch_cost=16384" in said
    assert "max_batch_cost = 16384" in said
    route = as_sidecar(said.replace("<what an item costs, such as chars>", "chars"))
    assert (route.cost, route.padded, route.max_batch_cost) == ("chars", None, 16384)
    worth = said.splitlines()[-1]
    assert worth.startswith("with cost= 100.00% are answered in time, without it ")
    assert float(worth.rstrip("%").rsplit(" ", 1)[1]) < 99


def test_what_cost_gains_is_told_of_requests_that_may_cost_so_much(tmp_path):
    """One in two costs too much for a batch, and is refused; without `cost=` it is not compared."""
    path = tmp_path / "half.csv"
    rows = [f"{index / 100},1,{100 if index % 2 else 10}" for index in range(200)]
    path.write_text("\n".join(["t_seconds,size,cost", *rows]))
    model = ("--latency", "1ms+10us/token", "--max-latency", "50ms", "--workers", "1")
    said = run("recommend", path, *model, "--max-batch-cost", 50, "--goodput", "50%")
    compared = "100.00% of what max_batch_cost lets in are answered in time, without it 100.00%"
    assert said.splitlines()[-1] == f"with cost= {compared}"


def test_sizes_that_the_model_runs_are_recommended():
    """The batch limits tried are these, and what to paste has those up to the best."""
    traffic = ("--arrivals", "poisson", "--rate", 800, "--duration", "2s", "--workers", "1..2")
    options = (*traffic, "--latency", "5ms+1ms", "--max-latency", "100ms", "--pad-to", "1,2,4,8")
    found = answer("recommend", *options)
    assert {each["max_batch_size"] for each in found["tried"]} <= {1, 2, 4, 8}
    best = found["recommended"]["max_batch_size"]
    sizes = [size for size in (1, 2, 4, 8) if size <= best]
    said = run("recommend", *options)
    assert f"in a program: sizes={sizes}, workers=" in said
    assert f"max_batch_size = {best}\nsizes = {sizes}" in said
    route = as_sidecar(said)
    assert (route.max_batch_size, route.sizes) == (best, tuple(sizes))
    assert route.pad_to_sizes
    few = answer("recommend", *options, "--max-batch-size", 2, status=1)
    assert {each["max_batch_size"] for each in few["tried"]} == {1, 2}
    wrong = run("recommend", *options[:-1], "8,16", "--max-batch-size", 4, status=2)
    assert (
        "--max-batch-size: expected one of --pad-to 8,16, or to be left out beside it, got 4"
        in wrong
    )
