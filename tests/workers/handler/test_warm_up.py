"""Examples that workers run before they are ready."""

import asyncio
import os
import signal
import tracemalloc

import pytest

from adaptive_batching import Pipeline, Processes, Stage, Tasks, Threads, batched
from adaptive_batching.core import Costs, Limits
from adaptive_batching.dispatcher import Dispatcher
from adaptive_batching.errors import CostError, Overloaded, WorkerStartError
from adaptive_batching.workers.factory import make_workers
from adaptive_batching.workers.handler.warm_up import Measured, WarmUp
from tests.virtual_time import run_virtually
from tests.workers import handlers
from tests.workers.conditions import until


async def test_each_size_runs_three_times():
    """The first may compile, then the faster of two counts; the largest is the limit."""
    batches = []

    @batched(max_batch_size=6, examples=["a", "b", "c"])
    async def handler(items: list[str]) -> list[str]:
        batches.append("".join(items))
        return items

    async with handler:
        assert batches == 3 * ["a", "ab", "abca", "abcabc"]
        assert handler.stats().batches == 0


async def test_each_size_runs_with_short_and_with_long_examples():
    """Those that cost less and those that cost more, as far as a batch may cost that much."""
    batches = []

    @batched(
        max_batch_size=6, examples=["ab", "a", "abcd"], cost=len, padded=True, max_batch_cost=16
    )
    async def handler(items: list[str]) -> list[str]:
        batches.append(items)
        return items

    short, long = ["a"], ["abcd", "ab"]
    ran = [short, long[:1], 2 * short, long, 4 * short, 2 * long, 6 * short]
    async with handler:
        assert batches == 3 * ran


async def test_examples_that_cost_the_same_run_once_in_each_size():
    """There is no short and no long one."""
    batches = []

    @batched(max_batch_size=2, examples=["a", "b"], cost=len)
    async def handler(items: list[str]) -> list[str]:
        batches.append("".join(items))
        return items

    async with handler:
        assert batches == 3 * ["a", "ab"]


async def test_each_size_runs_with_each_length_of_the_examples():
    """A model that pads to a few lengths has compiled each shape that a batch may have."""
    shapes = []

    @batched(
        sizes=[1, 4],
        examples=["a" * 5, "a", "a" * 30, "a" * 16, "a" * 20],
        cost=len,
        padded=True,
        pad_costs=[8, 16, 32],
        max_batch_cost=64,
    )
    async def handler(items: list[str]) -> list[str]:
        shapes.append((len(items), max(map(len, items))))
        return items

    async with handler:
        assert shapes == 3 * [(1, 5), (1, 16), (1, 30), (4, 5), (4, 16)]


def test_what_a_unit_of_cost_takes_is_known_before_the_first_call():
    """The forecasts of short and of long items are right from the beginning."""

    async def model(items):
        await asyncio.sleep(5e-3 + 1e-5 * len(items) * max(items))
        return items

    async def story():
        clock = asyncio.get_running_loop().time
        stage = Stage(model, max_batch_size=16, examples=[300, 10], cost=float, padded=True)
        async with Pipeline([stage], clock=clock) as pipeline:
            (stats,) = pipeline.stats().stages
            assert stats.fixed == pytest.approx(5e-3, rel=0.1)
            assert stats.per_cost == pytest.approx(1e-5, rel=0.1)

    run_virtually(story())


@pytest.mark.parametrize(
    ("examples", "error", "message"),
    [
        (["a", "abcd"], ValueError, "max_batch_cost=3, got 4 of example 1"),
        (["a", 5], CostError, "cost: expected a number for each item"),
    ],
)
def test_an_example_that_can_be_in_no_batch(examples, error, message):
    """It is refused where it is written."""
    with pytest.raises(error, match=message):
        batched(max_batch_size=2, examples=examples, cost=len, max_batch_cost=3)


def test_the_later_run_is_learned():
    """Cold starts are left out, and of the first burst nobody is let in who can't be answered."""
    seen, starting = set(), [True]

    async def model(items):
        cold = 3.0 if starting and len(items) not in seen else 0.0
        seen.add(len(items))
        await asyncio.sleep(cold + 5e-3 + 0.5e-3 * len(items))
        return items

    async def story():
        clock = asyncio.get_running_loop().time
        workers = make_workers(model, Tasks(), warm_up=WarmUp([0], 64))
        async with Dispatcher(workers, Limits(64, 0.05), clock=clock) as dispatcher:
            starting.clear()  # what is left of the burst may run in a size that was not warmed up
            stats = dispatcher.stats()
            assert stats.fixed == pytest.approx(5e-3, rel=0.2)
            assert stats.per_item == pytest.approx(0.5e-3, rel=0.1)
            burst = (dispatcher.submit(item) for item in range(500))
            ends = await asyncio.gather(*burst, return_exceptions=True)
            assert {type(end) for end in ends} == {int, Overloaded}

    run_virtually(story())


def compiles(met, cold):
    """A model that takes longer for each size when it meets it for the first time."""

    async def model(items):
        first = cold if len(items) not in met else 0.0
        met.append(len(items))
        await asyncio.sleep(first + 2e-3 + 0.1e-3 * len(items))
        return items

    return model


def test_where_each_size_is_slow_at_first_all_sizes_run():
    """No request meets a size that the model has not met; what they take later is learned."""
    met = []

    async def story():
        clock = asyncio.get_running_loop().time
        workers = make_workers(compiles(met, 0.05), Tasks(), warm_up=WarmUp([0], 64))
        async with Dispatcher(workers, Limits(64, 0.05), clock=clock) as dispatcher:
            assert sorted(met) == sorted([*range(1, 65), *2 * [1, 2, 4, 8, 16, 32, 64]])
            stats = dispatcher.stats()
            assert stats.fixed == pytest.approx(2e-3, rel=0.1)
            assert stats.per_item == pytest.approx(0.1e-3, rel=0.1)

    run_virtually(story())


@pytest.mark.parametrize(
    ("cold", "warm_up", "said"),
    [
        (3.0, WarmUp([0], 64), True),
        (3.0, WarmUp([0], 6, sizes=[1, 3, 6]), False),
        (3.0, WarmUp([0], 64, Costs(max_batch_cost=1000.0), lambda _: 500.0), False),
        (0.0, WarmUp([0], 64), False),
    ],
    ids=["would take minutes", "takes only these", "costs too much", "none is slow"],
)
def test_only_the_sizes_of_the_warm_up_run(cold, warm_up, said, caplog):
    """If all would take too long, the log says what to declare."""
    met = []

    async def story():
        clock = asyncio.get_running_loop().time
        workers = make_workers(compiles(met, cold), Tasks(), warm_up=warm_up)
        async with Dispatcher(workers, Limits(64, 0.05), clock=clock):
            assert len(met) == 3 * len(set(met)) < 3 * 64

    run_virtually(story())
    told = "model: the first batch of a size takes up to 3 s longer" in caplog.text
    assert told == said == ("57 other sizes would take longer than the 30 s" in caplog.text)


def test_a_size_is_slow_at_first_whatever_its_items_cost():
    """The second batch of a size, of other costs, is as fast as any."""
    cold = [
        Measured(size, cost, 0.06 if cost == 1 else 2e-3) for size in (1, 2, 4) for cost in (1, 9)
    ]
    warm = [each._replace(duration=2e-3) for each in cold]
    warm_up = WarmUp([1, 9], 4, Costs(), float)
    assert warm_up.goes_on("model", cold, warm)
    assert not warm_up.goes_on("model", [*cold[:4], *warm[4:]], warm)


@pytest.mark.parametrize("paused", [0, 3], ids=["the shortest", "one of the others"])
def test_a_pause_hides_no_slow_first_batches(paused):
    """A GPU whose second batch of one size took as long as a first: all other sizes still run."""
    cold = [Measured(size, 0.0, 0.085) for size in (1, 2, 4, 8, 16, 32, 64)]
    warm = [each._replace(duration=5e-3) for each in cold]
    warm[paused] = warm[paused]._replace(duration=0.06)
    assert WarmUp([0], 64).goes_on("model", cold, warm)


def test_how_long_the_batches_themselves_take_counts(caplog):
    """57 sizes at 60 ms for the first time and 160 ms each, on average, are not met in 10 s."""
    warm = [Measured(size, 0.0, 5e-3 * size) for size in (1, 2, 4, 8, 16, 32, 64)]
    cold = [each._replace(duration=each.duration + 0.06) for each in warm]
    assert not WarmUp([0], 64).goes_on("model", cold, warm, patience=10.0)
    assert "57 other sizes would take longer than the 10 s" in caplog.text
    assert WarmUp([0], 64).goes_on("model", cold, warm, patience=20.0)


def test_a_model_that_warms_up_once_is_not_slow_at_each_size(caplog):
    """The first run of each size takes twice as long as the second, and large ones take longer."""
    warm = [Measured(size, 0.0, 1e-3 * size) for size in (1, 2, 4, 8, 16, 32, 64, 128, 256)]
    cold = [each._replace(duration=2 * each.duration) for each in warm]
    assert not WarmUp([0], 256).goes_on("model", cold, warm)
    assert not caplog.text


def test_the_other_sizes_run_as_long_as_time_is_left():
    """A second for each that was said to take a tenth: the last of three begins in time."""
    met = []

    async def story():
        await WarmUp([0], 64).meet("model", compiles(met, 1.0), patience=2.5)
        assert met == [3, 5, 6]

    run_virtually(story())


@pytest.mark.parametrize("where", [Tasks(2), Threads(2)], ids=["tasks", "threads"])
async def test_wherever_a_handler_runs(where):
    """Each thread is warmed up; what runs on the loop is warmed up once."""
    runs = []

    async def awaited(items):
        return called(items)

    def called(items):
        runs.append(len(items))
        return items

    handler = awaited if isinstance(where, Tasks) else called
    async with batched(max_batch_size=2, workers=where, examples=[7])(handler):
        assert runs == [1, 2] * (3 if isinstance(where, Tasks) else 6)


@pytest.mark.parametrize("where", [Threads(1), Tasks(1)], ids=["threads", "tasks"])
async def test_an_example_that_fails(where):
    """It is named, with the size of its batch; nobody starts with a handler that is broken."""

    async def awaited(items):
        return called(items)

    def called(items):
        return [ValueError("too long") if item == "b" else item for item in items]

    handler = awaited if isinstance(where, Tasks) else called
    message = (
        r"(called|awaited) failed on example 1 in its warm-up, in a batch of 2: ValueError: too"
    )
    predict = batched(max_batch_size=4, workers=where, examples=["a", "b"])(handler)
    with pytest.raises(WorkerStartError, match=message):
        await predict("x")


class SlowAtFirst(WarmUp):
    """For a model that needs no time to be taken for one that is slow with each new size."""

    def goes_on(self, *_):
        return True


class Pool:
    """Some processes with examples, and the dispatcher that uses them."""

    def __init__(self, handler, examples, max_batch_size=8, warm_up=None, **processes):
        warm_up = warm_up or WarmUp(examples, max_batch_size)
        self.workers = make_workers(handler, Processes(**processes), warm_up=warm_up)
        self.dispatcher = Dispatcher(self.workers, Limits(max_batch_size))


async def test_processes_are_ready_when_they_are_warm():
    """So are those that replace them: a fresh one has run all sizes before its first request."""
    pool = Pool(handlers.CountsBatches, [0])
    async with pool.dispatcher as dispatcher:
        assert await dispatcher.submit(1) == 3 * 4 + 1
        assert [each.size for each in pool.workers.health.warm_up] == [1, 2, 4, 8]
        await dispatcher.restart_workers()
        assert await dispatcher.submit(1) == 4 + 1
        os.kill(pool.workers.pids[0], signal.SIGKILL)
        await until(lambda: not pool.workers.health.alive)
        assert await dispatcher.submit(1) == 4 + 1


@pytest.mark.parametrize("max_batch_size", [1, 2, 3, 100_000])
async def test_however_large_a_batch_may_be(max_batch_size):
    """Sizes that do not run cost no memory."""
    warm_up = WarmUp([0], max_batch_size)
    tracemalloc.start()
    try:
        assert not warm_up.goes_on("model", *2 * [[Measured(1, 0.0, 1e-3)] * 18])
        await warm_up.meet("model", compiles([], 0.0), patience=0.0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10e6  # bytes


async def test_processes_have_met_every_size_where_each_is_slow_at_first():
    """So have those that replace them."""
    pool = Pool(handlers.TellsSizes, [0], warm_up=SlowAtFirst([0], 4))
    async with pool.dispatcher as dispatcher:
        assert await dispatcher.submit(1) == [1, 2, 3, 4]
        await dispatcher.restart_workers()
        assert await dispatcher.submit(1) == [1, 2, 3, 4]


async def test_a_slow_worker_is_known_from_its_warm_up():
    """The first batch goes to the faster one, and what they took is each one's own."""
    pool = Pool(handlers.SecondIsSlow, [0], max_batch_size=16, count=2)
    async with pool.dispatcher as dispatcher:
        assert await dispatcher.submit(1) == 1
        stats = dispatcher.stats().per_worker
        fast, slow = sorted(stats, key=lambda each: each.full_batch)
        assert slow.full_batch > 2 * fast.full_batch
        assert (fast.batches, slow.batches) == (1, 0)


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ("value_error", r"worker 0 \(pid \d+\) failed in its warm-up, in a batch of 1: ValueError"),
        ("errors_in_place", "failed on example 0 in its warm-up, in a batch of 2: KeyError: 'sec"),
        ("exit_hard", "in a batch of 1: WorkerLost: .* exited with 3 while"),
    ],
)
async def test_a_process_that_fails_in_its_warm_up(order, message):
    """It is ended, and the error says how it failed."""
    pool = Pool(handlers.Obeys, [order])
    with pytest.raises(WorkerStartError, match=message):
        await pool.dispatcher.start()
    assert pool.workers.pids == []


async def test_a_warm_up_that_takes_too_long():
    """It counts as part of the start."""
    pool = Pool(handlers.Obeys, ["hang"], start_timeout=3.0)
    with pytest.raises(WorkerStartError, match=r"was not (ready|warm) within 3 s"):
        await pool.dispatcher.start()


def test_examples_for_workers_that_come_by_themselves():
    """They have to be warm when they come."""
    with pytest.raises(ValueError, match="expected no examples"):
        batched(workers="unix:/nowhere", examples=[1])(handlers.double_async)
