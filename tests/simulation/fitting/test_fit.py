"""A fitted model is right about how batches were made, and says when it can't be."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adaptive_batching.core import Costs, Job, Limits, Scheduler
from adaptive_batching.core.policies import make_policy
from adaptive_batching.errors import TraceError
from adaptive_batching.simulation.fitting.fit import fit
from adaptive_batching.simulation.fitting.loop_delay import LOOP_DELAY, loop_delay
from adaptive_batching.simulation.fitting.model_file import (
    Recorded,
    read_model,
    rehearsed,
    save_model,
)
from adaptive_batching.simulation.fitting.robust_line import fit_line
from adaptive_batching.simulation.servers.costs import CostSeconds
from adaptive_batching.simulation.servers.servers import Server, parse_latency, parse_server
from adaptive_batching.simulation.traffic.traces.recording import RecordedBatch, recorded_batches
from adaptive_batching.units import parse_occasion

SERVER = Server(5e-3, 5e-5, jitter=0.1, pause_probability=0.01, pause=20e-3)


def batches(sizes, server=SERVER, seed=1):
    duration = server.service(seed)
    return [(int(size), duration(int(size))) for size in sizes]


def any_size(number, largest=64, seed=2):
    return np.random.default_rng(seed).integers(1, largest + 1, number)


def at(model, size):
    return model.fixed.value + model.per_item.value * size


def test_what_was_put_in_comes_out():
    """Line, noise and pauses, within a few parts in a hundred."""
    model = fit(batches(any_size(5000)))
    assert model.fixed.value == pytest.approx(5e-3, rel=0.02)
    assert model.per_item.value == pytest.approx(5e-5, rel=0.05)
    assert model.jitter == pytest.approx(0.1, rel=0.05)
    assert model.pause_probability == pytest.approx(0.01, rel=0.3)
    assert model.pause == pytest.approx(20e-3, rel=0.1)
    assert model.warnings == []


def test_a_model_that_pads_is_found_out():
    """Nine items take as long as sixteen: the sizes to declare are named, and none for a line."""
    padding = Server(5e-3, 3e-4, jitter=0.02).service(1)
    padded = [(int(size), padding(-(-int(size) // 16) * 16)) for size in any_size(2000)]
    model = fit(padded)
    assert model.sizes == (16, 32, 48, 64)
    assert any("declare sizes=[16, 32, 48, 64]" in warning for warning in model.warnings)
    assert fit(batches(any_size(2000))).sizes == ()


def test_the_options_can_be_pasted():
    """What it prints is what `simulate` reads."""
    words = fit(batches(any_size(5000))).spelling.split()
    options = dict(zip(words[::2], words[1::2], strict=True))
    assert parse_latency(options["--latency"]) == pytest.approx((5e-3, 5e-5), rel=0.05)
    assert float(options["--jitter"]) == pytest.approx(0.1, rel=0.05)
    assert parse_occasion(options["--pause"]) == pytest.approx((0.01, 20e-3), rel=0.3)


def test_intervals_hold_the_truth_as_often_as_they_say():
    """In 200 recordings of 200 batches: 95 of 100, give or take what chance does."""
    held = np.zeros(2)
    for seed in range(200):
        sizes = any_size(200, 32, seed).astype(float)
        noise = np.random.default_rng([7, seed]).lognormal(-0.005, 0.1, 200)
        line = fit_line(sizes, (5e-3 + 5e-5 * sizes) * noise)
        held += [
            line.fixed.low <= 5e-3 <= line.fixed.high,
            line.per_item.low <= 5e-5 <= line.per_item.high,
        ]
    assert (held >= 180).all()


def test_pauses_do_not_bend_the_line():
    """One batch in twenty takes twice as long, only small ones: the slope stays."""
    quiet = batches(any_size(2000), Server(5e-3, 5e-5, jitter=0.05))
    struck = [
        (size, seconds + 10e-3 * (size < 20 and index % 6 == 0))
        for index, (size, seconds) in enumerate(quiet)
    ]
    model = fit(struck)
    assert at(model, 64) == pytest.approx(5e-3 + 64 * 5e-5, rel=0.03)


def test_a_model_that_pads_to_powers_of_two():
    """A line is off, and says so; the table is right."""
    noise = np.random.default_rng(3).lognormal(0, 0.05, 5000)
    padded = [
        (int(size), (2e-3 + 0.25e-3 * 2 ** int(size - 1).bit_length()) * factor)
        for size, factor in zip(any_size(5000), noise.tolist(), strict=True)
    ]
    model = fit(padded)
    assert model.line.error_p95 > 0.2
    assert model.table.error_p95 < 0.05
    assert abs(model.table.error_at_largest) < 0.1
    assert any("a line is off by" in warning for warning in model.warnings)
    predicted = [level.predicted for level in model.levels]
    assert predicted == sorted(predicted)
    assert model.spelling.startswith("--latency 1:2.")


def test_a_saved_model_comes_back(tmp_path):
    """The table to the last bit, beyond it the line, and what is drawn is what was measured."""
    model = fit(batches(any_size(2000)))
    save_model(model, tmp_path / "model.json")
    server, loop_delay, _, largest_recorded = read_model(str(tmp_path / "model.json"))
    assert loop_delay == 0
    assert server.curve is not None
    assert [server.curve(level.size) for level in model.levels] == [
        level.predicted for level in model.levels
    ]
    largest = model.levels[-1]
    assert largest_recorded == largest.size
    beyond = largest.predicted + 10 * model.per_item.value
    assert server.curve(largest.size + 10) == pytest.approx(beyond)
    service = server.service(seed=1)
    drawn = {round(service(8) - server.curve(8), 12) for _ in range(500)}
    assert drawn <= {round(residual, 12) for residual in model.residuals}


def test_the_margin_covers_what_it_promises():
    """Nine new batches in ten stay below it, as far as chance lets one tell."""
    model = fit(batches(any_size(4000)))
    for judged in (model.line, model.table):
        assert judged.margin == pytest.approx(0.13, abs=0.03)
        assert abs(judged.coverage - 0.9) <= 1.5 * judged.coverage_doubt


@pytest.mark.parametrize("sizes", [[1] * 500, [7, 8] * 50])
def test_sizes_that_do_not_vary(sizes):
    """The prediction is right where it was measured, and it is said that it is nowhere else."""
    model = fit(batches(sizes))
    assert at(model, sizes[0]) == pytest.approx(5e-3 + 5e-5 * sizes[0], rel=0.03)
    assert "hardly varied" in model.warnings[0]
    assert model.per_item.low <= 5e-5 <= model.per_item.high


def test_items_that_cost_nothing():
    """Nothing is nothing, and no 3.5e-13 ms, where large batches were even a little faster."""
    model = fit((int(size), 0.032 - 0.0001 * size) for size in any_size(200))
    assert model.per_item.value == 0.0
    assert "e-" not in model.spelling


def test_how_late_the_loop_was():
    """What lets a batch leave is the last arrival, or the end of the batch before, if later."""
    alone = [RecordedBatch(1, 0.01, at + 0.002, float(at), "idle") for at in range(20)]
    assert loop_delay(alone) == pytest.approx(0.002)
    crowd = [RecordedBatch(1, 0.099, at / 10, at / 10 - 0.05, "full") for at in range(21)]
    assert loop_delay(crowd) == pytest.approx(0.001)


@pytest.mark.parametrize(("number", "reason"), [(19, "idle"), (99, "timeout")])
def test_a_loop_of_which_little_is_known(number, reason):
    """Too few batches, or such as a timer may have released."""
    batches = [RecordedBatch(1, 0.01, at + 0.002, float(at), reason) for at in range(number)]
    assert loop_delay(batches) == LOOP_DELAY
    assert loop_delay([*batches, batches[0]._replace(duration=1e-6)]) == 1e-6


def test_options_and_files_leave_the_delay_out_of_the_durations(tmp_path):
    """`simulate` adds it again; a sidecar forecasts what its loop will see."""
    model = fit(batches(any_size(2000), Server(5e-3, 5e-5)), loop_delay=0.2e-3)
    assert model.spelling == "--latency 4.8ms+0.05ms --loop-delay 0.2ms"
    save_model(model, tmp_path / "model.json")
    recorded = read_model(str(tmp_path / "model.json"))
    assert recorded.loop_delay == 0.2e-3
    assert recorded.server.mean(64) == pytest.approx(8.0e-3, rel=1e-3)
    assert rehearsed(recorded, Limits(64))[-1] == (64, pytest.approx(8.2e-3, rel=1e-3), 0.0)
    of_sizes = rehearsed(recorded, Limits(8, sizes=(1, 8, 32)))
    assert [each.size for each in of_sizes] == [1, 8]


def test_a_model_that_slows_down():
    """A change in the middle of the recording is pointed out."""
    before = batches(any_size(500))
    after = batches(any_size(500), Server(10e-3, 1e-4, jitter=0.1))
    assert any("the model changed: +" in warning for warning in fit(before + after).warnings)


def test_cold_batches_are_left_out():
    """The first two of each power of two compile, and say nothing about the others."""
    cold = [(size, 5.0) for size in (1, 1, 2, 3, 4, 7)]
    warm = batches(any_size(200, 7), Server(5e-3, 5e-4))
    model = fit(cold + warm)
    assert model.batches == 200
    assert model.fixed.value == pytest.approx(5e-3, rel=1e-3)
    assert model.pause_probability == 0


@pytest.mark.parametrize("number", [0, 10, 21])
def test_too_few_batches(number):
    """Less than twenty warm ones are an anecdote."""
    with pytest.raises(ValueError, match="expected 20 batches or more"):
        fit(batches([4] * number))


def test_a_clock_s_ticks_are_no_pauses():
    """Durations that are all but equal have no noise and meet no pause."""
    model = fit([(1 + index % 8, 10e-3 + index % 3 * 1e-9) for index in range(400)])
    assert model.pause_probability == 0
    assert model.spelling.startswith("--latency 10ms+")
    assert model.spelling.split()[2:] == ["--loop-delay", "0ms"]


HEADER = "t_seconds,size,cost,latency_seconds,key,outcome,batch,batch_size,batch_seconds,reason\n"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("0,1,0,0.1,,dnoe,1,1,0.1,idle", "line 2: expected one of done, failed, .*got 'dnoe'"),
        ("0,1,0,0.1,,done,1,1,1e17,idle", r"line 2: expected 0 to 1e\+09 seconds, got 1e17"),
        ("0,1,0,0.1,,done,1,1,-1,idle", "line 2: expected 0 to .* seconds, got -1"),
        ("0,1,0,0.1,,done,1,1,nan,idle", "line 2: expected a finite number of seconds, got 'nan'"),
        ("0,1,0,0.1,,done,1,0,0.1,idle", "line 2: expected an integer from 1, got '0'"),
        ("0,1,-2,0.1,,done,1,1,0.1,idle", "line 2: expected a cost of 0 to .*, got '-2'"),
        ("0,1,0,0.1,,done,1,1,0.1", "line 2: expected 10 columns, got 9"),
    ],
)
def test_damaged_recordings(tmp_path, row, message):
    """The line, what was expected and what was there; no number is too large to compute with."""
    path = tmp_path / "recording.csv"
    path.write_text(f"{HEADER}{row}\n")
    with pytest.raises(TraceError, match=message):
        list(recorded_batches(path))


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(
            st.integers(1, 64) | st.integers(1, 10**18),
            st.floats(0, 1e9) | st.sampled_from([0.0, 1e-300, 1e9]),
        ),
        min_size=40,
        max_size=60,
    )
)
def test_any_recording_is_fitted_or_refused(batches):
    """Whatever sizes and durations it holds, the model's numbers are finite."""
    try:
        model = fit(batches)
    except ValueError as refused:
        if str(refused).startswith("expected 20 batches"):
            return
        raise
    numbers = (model.fixed.value, model.per_item.value, model.jitter, model.pause)
    assert np.isfinite(numbers).all()
    assert min(numbers) >= 0


COSTLY = Server(4e-3, 2e-5, jitter=0.05)


def costly(padded, number=2000, seed=3):
    """Batches of texts: sizes with durations, and what their items cost."""
    rng = np.random.default_rng(seed)
    service = replace(COSTLY, costs=CostSeconds(1.2e-6, padded=padded)).service(seed)
    batches, costs = [], []
    for size in any_size(number, seed=seed).tolist():
        jobs = [Job(0.0, cost=cost) for cost in rng.lognormal(4.0, 0.8, size).tolist()]
        batches.append((size, service.run(size, 0.0, 0, jobs=jobs).seconds))
        prices = [job.cost for job in jobs]
        costs.append((sum(prices), max(prices)))
    return batches, costs


@pytest.mark.parametrize("padded", [False, True])
def test_three_coefficients(padded):
    """Whether batches are padded is found as well, and a line by size would be far off."""
    batches, costs = costly(padded)
    model = fit(batches, costs=costs)
    assert model.costs is not None
    assert model.costs.padded == padded
    assert model.costs.per_cost.value == pytest.approx(1.2e-6, rel=0.03)
    assert model.fixed.value == pytest.approx(4e-3, rel=0.05)
    assert model.costs.error == pytest.approx(0.05 * 0.67, rel=0.2)
    assert model.costs.error_by_size > 1.3 * model.costs.error
    assert model.jitter == pytest.approx(0.05, rel=0.15)
    words = model.spelling.split()
    assert words[2] == ("--padded" if padded else "--no-padded")
    assert parse_server(words[1]).costs.per_cost == pytest.approx(1.2e-6, rel=0.03)


def test_pauses_bend_no_plane():
    """One batch in fifty stands still ten times as long as it would take."""
    batches, costs = costly(padded=True)
    paused = [(size, took * (11 if n % 50 == 0 else 1)) for n, (size, took) in enumerate(batches)]
    model = fit(paused, costs=costs)
    assert model.costs.per_cost.value == pytest.approx(1.2e-6, rel=0.05)


@pytest.mark.parametrize("costs", [(0.0, 0.0), (100.0, 100.0)])
def test_costs_that_say_nothing(costs):
    """What costs nothing, or what costs as much in every batch, is left to the sizes."""
    found = batches(any_size(400))
    model, by_size = fit(found, costs=[costs] * 400), fit(found)
    assert model.costs is None
    assert replace(model, warnings=[]) == replace(by_size, warnings=[])
    told = [each for each in model.warnings if each not in by_size.warnings]
    assert [each.split(":")[0] for each in told] == (
        ["costs of batches hardly varied beyond their sizes, or batches are few"]
        if any(costs)
        else []
    )


def test_costs_that_do_not_matter():
    """Durations that don't depend on them are explained by the sizes alone."""
    rng = np.random.default_rng(5)
    found = batches(any_size(400))
    costs = [(sum(each), max(each)) for size, _ in found for each in [rng.lognormal(4, 1, size)]]
    model = fit(found, costs=costs)
    assert model.costs is None
    assert not model.warnings


def test_batches_of_one_size_that_cost_differently():
    """The cost is known, what an item adds is not."""
    rng = np.random.default_rng(5)
    costs = rng.uniform(10, 1000, 400)
    model = fit([(8, 5e-3 + 2e-6 * cost) for cost in costs], costs=[(c, c / 8) for c in costs])
    assert model.costs.per_cost.value == pytest.approx(2e-6, rel=0.01)
    assert model.fixed.value == pytest.approx(5e-3, rel=0.01)


def test_a_saved_model_with_costs(tmp_path):
    """Simulated batches take what recorded ones took; a loop is rehearsed with the usual costs."""
    batches, costs = costly(padded=True)
    model = fit(batches, costs=costs)
    save_model(model, tmp_path / "model.json")
    known = read_model(str(tmp_path / "model.json"))
    assert known.server.costs == CostSeconds(model.costs.per_cost.value, padded=True)
    usual = np.mean([took for size, took in batches if size >= 60])
    (*_, (size, seconds, _)) = rehearsed(known, Limits(64))
    assert (size, seconds) == (64, pytest.approx(usual, rel=0.15))


@pytest.mark.parametrize("cost", [500.0, None])
def test_costs_that_do_not_vary(cost):
    """A bound on the cost that all batches meet, or items of one cost, leave it unknown."""
    rng = np.random.default_rng(1)
    sizes = rng.integers(5, 20, 400)
    sums = sizes * 40.0 if cost is None else cost * rng.uniform(0.995, 1.0, 400)
    seconds = (2e-3 + 0.1e-3 * sizes + 20e-6 * sums) * rng.lognormal(0, 0.05, 400)
    costs = [(each, 100.0) for each in sums.tolist()]
    batches = list(zip(sizes.tolist(), seconds.tolist(), strict=True))
    model = fit(batches, costs=costs)
    assert model.costs is None
    assert any("costs of batches hardly varied" in warning for warning in model.warnings)
    assert not fit(batches).warnings


def test_costs_of_batches_of_one_size():
    """What a unit of cost takes is known; what an item adds is not, and that is said."""
    rng = np.random.default_rng(1)
    each = rng.lognormal(3.8, 0.8, (300, 8))
    sums, largest = each.sum(axis=1), each.max(axis=1)
    seconds = (4e-3 + 50e-6 * 8 + 20e-6 * sums) * rng.lognormal(0, 0.02, 300)
    costs = list(zip(sums.tolist(), largest.tolist(), strict=True))
    model = fit([(8, taken) for taken in seconds.tolist()], costs=costs)
    assert model.costs.per_cost.value == pytest.approx(20e-6, rel=0.05)
    assert "batch sizes hardly varied" in model.warnings[0]
    assert model.per_item.low <= 50e-6 <= model.per_item.high
    assert model.fixed.low <= 4e-3 <= model.fixed.high


@pytest.mark.parametrize("padded", [True, False])
def test_a_sidecar_starts_with_all_that_a_saved_model_knows(tmp_path, padded):
    """All three coefficients are known before the first request, as the service had them."""
    batches, costs = costly(padded=padded)
    model = fit(batches, costs=costs)
    save_model(model, tmp_path / "model.json")
    known = read_model(str(tmp_path / "model.json"))
    limits = Limits(64, costs=Costs(padded, max_batch_cost=1e5))
    scheduler = Scheduler(make_policy("cork"), limits, workers=1)
    scheduler.rehearse((0, size, took, cost) for size, took, cost in rehearsed(known, limits))
    line = scheduler.latency
    assert line.per_cost == pytest.approx(model.costs.per_cost.value, rel=0.1)
    for size, took, cost in rehearsed(known, limits):
        assert cost <= 1e5
        assert line.predict(size, cost) == pytest.approx(took, rel=0.1)


@pytest.mark.parametrize(
    ("costs", "declared", "told"),
    [
        (None, True, "had no costs, or `fit` could not tell what they add"),
        (CostSeconds(1e-6, padded=True), False, "expected padded=True, .*, got padded=False"),
    ],
)
def test_a_model_that_does_not_know_what_costs_add(costs, declared, told):
    """It says what is missing, instead of forecasts that are wrong."""
    known = Recorded(Server(5e-3, 1e-3, costs=costs), 0.0, 100.0)
    with pytest.raises(ValueError, match=told):
        rehearsed(known, Limits(8, costs=Costs(declared)))


def test_costs_of_recorded_batches(tmp_path):
    """Requests whose callers left cost what the others did; the largest cost is known."""
    path = tmp_path / "recording.csv"
    rows = [
        "0,1,30,0.1,,done,1,3,0.1,idle",
        "0,1,10,0.1,,done,1,3,0.1,idle",
        "0,1,99,0.05,,expired,,,,",
    ]
    path.write_text(HEADER + "".join(f"{row}\n" for row in rows))
    (batch,) = recorded_batches(path)
    assert (batch.size, batch.cost, batch.largest) == (3, 60.0, 30.0)


def filled_up(padded, sizes):
    """Batches of a model that fills them up to some sizes, with what their items cost."""
    rng, found, costs = np.random.default_rng(1), [], []
    for size in rng.integers(1, 9, 1_500).tolist():
        run = next((step for step in sizes if step >= size), size)
        each = rng.lognormal(3.8, 0.8, size).tolist()
        cost = run * max(each) if padded else sum(each) * run / size
        found.append((size, (4e-3 + 20e-6 * cost) * rng.lognormal(0, 0.02)))
        costs.append((sum(each), max(each)))
    return found, costs


@pytest.mark.parametrize("padded", [True, False])
def test_sizes_of_a_model_whose_items_cost_differently(padded, tmp_path):
    """What fills a batch up costs as well: it is found, advised, and in the model that is saved."""
    found, costs = filled_up(padded, (1, 2, 4, 8))
    model = fit(found, costs=costs)
    assert model.costs.padded is padded
    assert model.costs.per_cost.value == pytest.approx(20e-6, rel=0.02)
    assert model.fixed.value == pytest.approx(4e-3, rel=0.05)
    assert any("declare sizes=[1, 2, 4, 8]" in warning for warning in model.warnings)
    assert " --pad-to 1,2,4,8" in model.spelling
    save_model(model, tmp_path / "model.json")
    server = read_model(str(tmp_path / "model.json")).server
    assert server.mean(5) == server.mean(8)
    assert server.costs.sizes == (1, 2, 4, 8)


@pytest.mark.parametrize("padded", [True, False])
def test_a_model_of_any_size_has_no_sizes(padded):
    """Costs alone are not taken for what fills batches up."""
    found, costs = filled_up(padded, ())
    model = fit(found, costs=costs)
    assert model.sizes == ()
    assert "--pad-to" not in model.spelling
