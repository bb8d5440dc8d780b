"""What viewers are sent is what happened, second by second, and never grows."""

import asyncio
from contextlib import asynccontextmanager
from operator import attrgetter

import pytest

from adaptive_batching.core import Costs, Limits
from adaptive_batching.dispatcher import Dispatcher, request_name
from adaptive_batching.errors import BatchingError
from adaptive_batching.instrumentation.histograms import BatchHistograms, Histogram, quantile
from adaptive_batching.instrumentation.live import LiveView, Second, Slo, SloState
from adaptive_batching.instrumentation.live.watch import SECONDS_KEPT, Watched
from adaptive_batching.instrumentation.recent_batches import RecentBatches
from adaptive_batching.instrumentation.size_advice import SizeAdvice
from adaptive_batching.workers.factory import make_workers
from adaptive_batching.workers.placement import Tasks
from tests.virtual_time import hold_the_loop, run_virtually


class Scene:
    """A dispatcher with a slow model in virtual time, and who looks at it."""

    def __init__(self, dispatcher, histograms, latest, view):
        self.dispatcher = dispatcher
        self.histograms = histograms
        self.latest = latest
        self.view = view

    async def submit(self, item, **how):
        request_name.set(f"request-{item}")
        return await self.dispatcher.submit(item, **how)

    async def at(self, now):
        """Look when the time has come."""
        await asyncio.sleep(now - asyncio.get_running_loop().time())
        [endpoint] = self.view.look(asyncio.get_running_loop().time()).endpoints
        return endpoint


@asynccontextmanager
async def scene(*, workers=1, **limits):
    async def model(items):
        if "bad" in items:
            raise ValueError
        await asyncio.sleep(0.1)
        if "long" in items:
            hold_the_loop(0.1)
        return items

    limits = Limits(**{"max_batch_size": 4, **limits})
    histograms, latest = BatchHistograms(limits.max_batch_size), RecentBatches()
    advice = SizeAdvice("/model", attrgetter("setting"))
    dispatcher = Dispatcher(
        make_workers(model, Tasks(workers)),
        limits,
        policy="greedy",
        clock=asyncio.get_running_loop().time,
        observers=[histograms, latest],
    )
    view = LiveView()
    view.watch(Watched("/model", dispatcher, histograms, latest, advice))
    async with dispatcher:
        yield Scene(dispatcher, histograms, latest, view)


def test_a_second_counts_what_ended_in_it_and_what_came():
    """Who still runs has arrived, and is done in the next one."""

    async def story():
        async with scene() as model:
            first = await model.at(0.0)
            assert (first.seconds, first.ran) == ([], [])
            calls = [asyncio.ensure_future(model.submit(each)) for each in range(5)]
            one = (await model.at(0.15)).seconds[0]
            assert (one.arrived, one.done, one.batches, one.items) == (5, 4, 1, 4)
            assert (one.queued, one.running, one.workers, one.length) == (0, 1, 1, 0.15)
            assert one.busy == pytest.approx(0.15)  # one batch has ended, another is under way
            two = (await model.at(1.0)).seconds[0]
            assert (two.arrived, two.done, two.batches) == (0, 1, 1)
            assert two.busy == pytest.approx(0.05)
            three = await model.at(2.0)
            assert three.seconds[0].p50 is None
            assert three.requests["done"] == three.items == 5
            assert (three.batches, three.releases) == (2, {"full": 1, "idle": 1})
            await asyncio.gather(*calls)

    run_virtually(story())


def test_percentiles_are_those_of_the_requests():
    """Four in five took a batch's time, and one waited for another before."""

    async def story():
        async with scene() as model:
            await model.at(0.0)
            await asyncio.gather(*map(model.submit, range(5)))
            endpoint = await model.at(1.0)
            [second] = endpoint.seconds
            assert second.p50 == pytest.approx(0.1, rel=0.1)
            assert second.p99 == pytest.approx(0.2, rel=0.13)  # a step is as wide as that
            assert endpoint.lately == (second.p50, second.p90, second.p99)

    run_virtually(story())


def test_who_gets_no_answer_in_time_has_waited_for_as_long_as_was_promised():
    """Two in three are late, one in the queue and one while his batch runs: p90 is the promise."""

    async def story():
        async with scene(max_batch_size=1, max_latency=0.15) as model:
            await model.at(0.0)
            calls = [asyncio.ensure_future(model.submit(each)) for each in range(3)]
            await asyncio.gather(*calls, return_exceptions=True)
            endpoint = await model.at(1.0)
            [second] = endpoint.seconds
            assert (second.done, second.expired) == (1, 2)
            assert second.p90 == second.p99 == endpoint.lately[2] == 0.15
            assert endpoint.promise.verdict is SloState.BROKEN
            assert endpoint.promise.in_time == pytest.approx(1 / 3)
            assert model.histograms.latency.counts.count(1) == 1

    run_virtually(story())


def test_an_answer_that_a_late_loop_gives_after_the_deadline_is_late():
    """The model keeps the loop for 0.2 s where 0.15 s were promised: all answered, none in time."""

    async def story():
        async with scene(max_latency=0.15) as model:
            await model.at(0.0)
            assert await asyncio.gather(*map(model.submit, ["long", "long"])) == ["long", "long"]
            endpoint = await model.at(1.0)
            [second] = endpoint.seconds
            assert (second.done, second.expired) == (0, 2)
            assert second.p90 == second.p99 == 0.15
            assert (endpoint.promise.verdict, endpoint.promise.in_time) == (SloState.BROKEN, 0.0)

    run_virtually(story())


def test_refusals_are_told_by_their_reason():
    """Of six, one runs, one waits and expires meanwhile, four find no room; one fails later."""

    async def story():
        async with scene(max_batch_size=1, max_queue=1, max_latency=0.15) as model:
            await model.at(0.0)
            calls = [asyncio.ensure_future(model.submit(0))]
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            calls += [asyncio.ensure_future(model.submit(each)) for each in range(1, 6)]
            ended = await asyncio.gather(*calls, return_exceptions=True)
            assert sum(isinstance(each, BatchingError) for each in ended) == 5
            [second] = (await model.at(1.0)).seconds
            assert (second.arrived, second.done, second.queue_full) == (6, 1, 4)
            assert (second.expired, second.shed, second.cancelled) == (1, 0, 0)
            with pytest.raises(ValueError):
                await model.submit("bad")
            assert (await model.at(2.0)).seconds[0].failed == 1

    run_virtually(story())


def test_each_batch_says_who_was_in_it_and_why_it_left():
    """Newest first; a viewer is told of each once, oldest first."""

    async def story():
        async with scene() as model:
            await model.at(0.0)
            await asyncio.gather(*map(model.submit, range(5)))
            newest, oldest = model.latest.newest()
            assert newest.members == ["request-4"]
            assert oldest.members == [f"request-{each}" for each in range(4)]
            assert (oldest.number, oldest.record.reason.value) == (0, "full")
            ran = (await model.at(1.0)).ran
            assert [(each.number, each.size, each.released) for each in ran] == [
                (0, 4, 0.0),
                (1, 1, 0.1),
            ]
            assert (await model.at(2.0)).ran == []
            assert [each.number for each in model.view.whole().endpoints[0].ran] == [0, 1]

    run_virtually(story())


def test_cost_and_padding_are_told_where_items_have_costs():
    """Of 1, 1 and 4, padded to 12, half is padding; without costs there is nothing of either."""

    async def story(costs):
        async with scene(costs=costs) as model:
            await model.at(0.0)
            await asyncio.gather(*(model.submit(cost, cost=cost) for cost in (1, 1, 4)))
            endpoint = await model.at(1.0)
            [second], [ran] = endpoint.seconds, endpoint.ran
            return second.cost, second.own_cost, ran.cost, endpoint.mean_cost

    assert run_virtually(story(Costs(padded=True))) == (12, 6, 12, 4)
    assert run_virtually(story(None)) == (0, 0, 0, 0)


def test_padding_to_a_few_sizes_is_told_where_items_have_no_costs():
    """Three items that run as four are one item of padding in four."""

    async def story():
        async with scene(sizes=(1, 4)) as model:
            await model.at(0.0)
            await asyncio.gather(*map(model.submit, range(3)))
            [second] = (await model.at(1.0)).seconds
            return second.items, second.cost, second.own_cost

    assert run_virtually(story()) == (3, 4, 3)


def test_nothing_grows():
    """Ten minutes and a thousand batches later as much is kept as after two minutes."""

    async def story():
        async with scene(max_batch_size=1) as model:
            for second in range(600):
                await model.submit(second)
                await model.submit(second)
                await model.at(second + 1.0)
            [whole] = model.view.whole().endpoints
            assert len(whole.seconds) == SECONDS_KEPT
            assert [each.number for each in whole.ran] == list(range(1200 - 256, 1200))
            assert whole.seconds[-1].until == 600.0

    run_virtually(story())


def test_who_joins_between_two_looks_gets_what_the_next_look_goes_on_from():
    """Nothing twice, nothing never."""

    async def story():
        async with scene(max_batch_size=1) as model:
            await model.submit(0)
            await model.at(1.0)
            await model.submit(1)
            seen = [each.number for each in model.view.whole().endpoints[0].ran]
            seen += [each.number for each in (await model.at(2.0)).ran]
            assert seen == [0, 1]

    run_virtually(story())


def test_a_worker_is_seen_at_its_batch():
    """Since when it holds it, so that one that hangs is seen before it ends."""

    async def story():
        async with scene() as model:
            await model.at(0.0)
            call = asyncio.ensure_future(model.submit(1))
            endpoint = await model.at(0.05)
            assert endpoint.workers[0].busy_since == 0.0
            assert endpoint.in_flight == 1
            await call
            assert (await model.at(1.0)).workers[0].busy_since is None

    run_virtually(story())


def test_forgotten_endpoints_are_not_looked_at():
    async def story():
        async with scene() as model:
            await model.at(0.0)
            model.view.forget("/model")
            assert model.view.look(1.0).endpoints == []

    run_virtually(story())


@pytest.mark.parametrize("value", [0.0003, 0.0123, 0.0999, 0.1, 0.77, 29.0])
def test_a_quantile_is_right_within_a_tenth(value):
    """At any latency; below and above lie as many others."""
    histogram = Histogram(steps=8)
    for factor in (0.5, 0.9, 1.0, 1.1, 2.0):
        histogram.observe(value * factor)
    assert quantile(histogram.steps, histogram.counts, 0.5) == pytest.approx(value, rel=0.13)


def test_a_quantile_of_nothing_is_none():
    histogram = Histogram()
    assert quantile(histogram.steps, histogram.counts, 0.5) is None
    histogram.observe(1e9)
    assert quantile(histogram.steps, histogram.counts, 0.5) == histogram.bounds[-1]


def test_steps_do_not_change_what_prometheus_is_told():
    coarse, fine = Histogram(), Histogram(steps=8)
    for number in range(1, 2000):
        coarse.observe(number * 7e-4)
        fine.observe(number * 7e-4)
    assert fine.cumulative() == coarse.cumulative()
    assert fine.total == coarse.total


def second(**counts):
    zeros = dict.fromkeys(Second.__struct_fields__, 0)
    return Second(**{**zeros, "length": 1.0, "releases": {}, **counts})


@pytest.mark.parametrize(
    ("counts", "verdict"),
    [
        ({}, SloState.IDLE),
        ({"arrived": 1000, "done": 1000}, SloState.KEPT),
        ({"arrived": 1000, "done": 999, "expired": 1}, SloState.KEPT),
        ({"arrived": 1000, "done": 900, "shed": 99, "queue_full": 1}, SloState.REFUSING),
        ({"arrived": 1000, "shed": 1000}, SloState.REFUSING),
        ({"arrived": 1000, "done": 900, "expired": 60, "failed": 40}, SloState.BROKEN),
        ({"arrived": 1000, "done": 900, "expired": 40, "failed": 60}, SloState.FAILING),
        ({"arrived": 1000, "done": 400, "expired": 10, "shed": 590}, SloState.BROKEN),
        ({"arrived": 10, "cancelled": 10}, SloState.KEPT),
    ],
)
def test_a_promise_is_judged_by_those_who_were_let_in(counts, verdict):
    """One in a thousand is forgiven; what was a minute ago does not count."""
    long_ago = [second(arrived=9, expired=9)]
    assert Slo.of([*long_ago, *([second()] * 59), second(**counts)]).verdict is verdict
