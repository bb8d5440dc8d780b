"""Items that don't cost the same, as the dispatcher batches them."""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from math import inf, isnan, nan
from typing import Any

import pytest

from adaptive_batching.core import Batch, BatchRecord, Costs, Fairness, Job, JobOutcome, Limits
from adaptive_batching.dispatcher import Dispatcher, Observer
from adaptive_batching.errors import CostError, InvalidItem, JobTooLarge
from adaptive_batching.workers.local import TaskWorkers
from tests.virtual_time import run_virtually


class Recorder:
    """Keeps the records of the batches that ended."""

    def __init__(self) -> None:
        self.records: list[BatchRecord] = []

    def batch_ended(self, batch: Batch, record: BatchRecord) -> None:
        self.records.append(record)


async def padded_model(items: list[int]) -> list[int]:
    """Pads each item, which is its length, to the longest."""
    await asyncio.sleep(4e-3 + 1e-6 * len(items) * max(items))
    return items


def dispatcher_of(costs: Costs, recorder: Observer, **options: Any) -> Dispatcher[int, int]:
    return Dispatcher(
        TaskWorkers(padded_model, 1),
        Limits(64, costs=costs),
        clock=asyncio.get_running_loop().time,
        observers=[recorder],
        **options,
    )


def test_short_items_leave_without_the_long_ones() -> None:
    """With what batches took by their cost, the dispatcher keeps items apart that would pad one
    another.
    """
    recorder = Recorder()

    async def main() -> None:
        rng = random.Random(1)
        async with dispatcher_of(Costs(padded=True), recorder) as dispatcher:
            for _ in range(40):
                lengths = [rng.randint(10, 5_000) for _ in range(rng.randint(1, 3))]
                await asyncio.gather(*(dispatcher.submit(n, cost=n) for n in lengths))
            del recorder.records[:]
            lengths = [10, 5_000] * 8
            await asyncio.gather(*(dispatcher.submit(n, cost=n) for n in lengths))

    run_virtually(main())
    per_item = [each.cost / each.size for each in recorder.records]
    assert sum(each.size for each in recorder.records if each.cost == 10 * each.size) == 8
    assert set(per_item) == {10, 5_000}


def test_the_calls_of_tenants_have_costs_too() -> None:
    """A call that carries its tenant carries its cost."""
    recorder = Recorder()

    async def main() -> None:
        async with dispatcher_of(Costs(), recorder, fairness=Fairness()) as dispatcher:
            await dispatcher.submit(7, tenant="one", cost=7.5)

    run_virtually(main())
    assert [each.cost for each in recorder.records] == [7.5]


class Ends:
    """Keeps how jobs ended, with their costs."""

    def __init__(self) -> None:
        self.seen: list[tuple[JobOutcome, float]] = []

    def batch_ended(self, batch: Batch, record: BatchRecord) -> None:
        """Batches don't matter."""

    def jobs_ended(
        self, jobs: Sequence[Job], outcome: JobOutcome, now: float, batch: BatchRecord | None
    ) -> None:
        self.seen += [(outcome, job.cost) for job in jobs]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (CostError("cost: it raised"), JobOutcome.FAILED),
        (InvalidItem("$", "expected a text"), JobOutcome.DONE),
        (JobTooLarge("it costs too much"), JobOutcome.SHED),
        (ValueError("any other"), JobOutcome.FAILED),
    ],
)
def test_a_call_of_unknown_cost_is_counted(error: Exception, outcome: JobOutcome) -> None:
    """It ends with the error that it has instead of a cost, and the observers hear of it."""
    ends = Ends()

    async def main() -> None:
        async with dispatcher_of(Costs(), ends) as dispatcher:
            with pytest.raises(type(error)) as told:
                await dispatcher.submit(1, cost=error)
            assert told.value is error
            assert +Counter(dispatcher.stats().requests) == {outcome: 1}

    run_virtually(main())
    assert [each for each, _ in ends.seen] == [outcome]
    assert isnan(ends.seen[0][1])


def test_what_costs_too_much_is_told_with_its_cost() -> None:
    """A face that knows it refuses by itself; a simulation of the recording refuses it, too."""
    ends = Ends()

    async def main() -> None:
        async with dispatcher_of(Costs(), ends) as dispatcher:
            with pytest.raises(JobTooLarge):
                await dispatcher.submit(1, cost=JobTooLarge("it costs too much", cost=9.0))

    run_virtually(main())
    assert ends.seen == [(JobOutcome.SHED, 9.0)]


def test_no_batch_costs_more_than_max_batch_cost() -> None:
    """The limit holds from the first batch on; a call beyond it by itself is refused."""
    recorder = Recorder()

    async def main() -> None:
        costs = Costs(padded=True, max_batch_cost=4_000)
        async with dispatcher_of(costs, recorder) as dispatcher:
            await asyncio.gather(*(dispatcher.submit(1_500, cost=1_500) for _ in range(5)))
            message = "expected a cost of at most max_batch_cost=4000, got 4001"
            with pytest.raises(JobTooLarge, match=message):
                await dispatcher.submit(4_001, cost=4_001)
            with pytest.raises(JobTooLarge, match="got 6000"):
                await dispatcher.submit(3_000, cost=3_000, size=2)

    run_virtually(main())
    assert sum(each.size for each in recorder.records) == 5
    assert max(each.cost for each in recorder.records) == 3_000


def test_limits_that_are_refused_change_nothing() -> None:
    """Calls that wait are counted by the costs that there were."""

    async def story() -> None:
        dispatcher = dispatcher_of(Costs(padded=True), Recorder())
        async with dispatcher:
            before = dispatcher.limits
            with pytest.raises(ValueError, match=r"costs: expected costs with padded=True"):
                dispatcher.retune("greedy", Limits(8))
            assert dispatcher.limits is before
            assert await dispatcher.submit(8, cost=8.0) == 8

    run_virtually(story())


@pytest.mark.parametrize("cost", [-1.0, nan, inf, 1e16, 10**400])
def test_a_cost_that_is_no_number_is_the_callers_error(cost: float) -> None:
    """Only that call fails; the dispatcher goes on."""

    async def main() -> None:
        async with dispatcher_of(Costs(), Recorder()) as dispatcher:
            with pytest.raises(ValueError, match=r"cost: expected a number from 0 to 9\.0072e"):
                await dispatcher.submit(1, cost=cost)
            assert await dispatcher.submit(1, cost=1.0) == 1

    run_virtually(main())
