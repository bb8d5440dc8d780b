"""Pipelines told as stories, most of them in virtual time."""

import asyncio
import os
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from adaptive_batching.core import JobOutcome
from adaptive_batching.errors import (
    DeadlineExceeded,
    Draining,
    Overloaded,
    QueueFull,
    WorkerLost,
    WrongEventLoop,
)
from adaptive_batching.pipeline import Pipeline, Stage
from tests.virtual_time import hold_the_loop, run_virtually


class Step:
    """Takes `seconds` over a batch, adds its mark to each item, and remembers its batches."""

    def __init__(self, mark: str, seconds: float) -> None:
        self.mark = mark
        self.seconds = seconds
        self.batches: list[list[str]] = []

    async def __call__(self, items: list[str]) -> list[str | Exception]:
        self.batches.append(items)
        await asyncio.sleep(self.seconds)
        return [ValueError(item) if "bad" in item else item + self.mark for item in items]


def tell(
    story: Callable[[Pipeline[str, str]], Awaitable[Any]], *stages: Stage, **options: Any
) -> None:
    """Tell a story in virtual time."""

    async def main() -> None:
        clock = asyncio.get_running_loop().time
        async with Pipeline[str, str](stages, clock=clock, **options) as pipeline:
            await story(pipeline)

    run_virtually(main())


def test_items_go_through_all_stages_and_come_back_to_their_callers() -> None:
    """Each stage forms its own batches, and everyone gets his own result."""
    first, second = Step("a", 0.01), Step("b", 0.02)

    async def story(pipeline: Pipeline[str, str]) -> None:
        assert await pipeline.map(str(n) for n in range(10)) == [f"{n}ab" for n in range(10)]

    tell(story, Stage(first, max_batch_size=2), Stage(second, max_batch_size=8))
    assert max(map(len, first.batches)) == 2
    assert max(map(len, second.batches)) > 2


def test_each_stage_warms_up_with_its_own_examples() -> None:
    """They are items as they reach that stage, and what they took is known before the first."""
    first, second = Step("a", 0.01), Step("b", 0.02)

    async def story(pipeline: Pipeline[str, str]) -> None:
        assert first.batches == 3 * [["e"], ["e", "e"]]
        assert second.batches == 3 * [["ea"], ["ea"] * 2, ["ea"] * 4]
        durations = [each.stats().fixed for each in pipeline.dispatchers]
        assert durations == pytest.approx([0.01, 0.02])
        assert await pipeline("0") == "0ab"

    tell(story, Stage(first, 2, examples=["e"]), Stage(second, 4, examples=["ea"]))


def test_stages_work_at_the_same_time() -> None:
    """Ten single items through two stages of 10 ms take eleven turns, not twenty."""

    async def single(item: str) -> str:
        await asyncio.sleep(0.01)
        return item + "x"

    async def story(pipeline: Pipeline[str, str]) -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        assert await pipeline.map("0123456789") == [f"{n}xx" for n in range(10)]
        assert loop.time() - begun == pytest.approx(0.11)

    tell(story, Stage(single), Stage(single))


def test_an_error_skips_the_later_stages() -> None:
    """What a stage raises for an item goes to its caller; the rest of its batch goes on."""
    first, second = Step("a", 0.01), Step("b", 0.01)

    async def story(pipeline: Pipeline[str, str]) -> None:
        good, bad = await asyncio.gather(pipeline("1"), pipeline("bad"), return_exceptions=True)
        assert good == "1ab"
        assert isinstance(bad, ValueError)

    tell(story, Stage(first, max_batch_size=4), Stage(second, max_batch_size=4))
    assert second.batches == [["1a"]]


def test_a_stage_may_refuse_by_itself() -> None:
    """An exception of a handler is its caller's as it is, though it be one of ours."""

    async def full(items: list[str]) -> list[str]:
        raise QueueFull("somewhere behind", retry_after=7.0)

    async def story(pipeline: Pipeline[str, str]) -> None:
        with pytest.raises(QueueFull, match="somewhere behind"):
            await pipeline("1")

    tell(story, Stage(Step("a", 0.01), 4), Stage(full, 4), max_latency=1.0)


def test_an_idempotent_stage_runs_a_failed_batch_again_in_parts() -> None:
    """Only the guilty item gets the error."""

    async def picky(items: list[str]) -> list[str]:
        if "bad" in items:
            raise LookupError("bad")
        return items

    async def story(pipeline: Pipeline[str, str]) -> None:
        for _ in range(20):  # retries are a share of the requests
            await pipeline("good")
        ends = await asyncio.gather(*map(pipeline, ["1", "bad", "2"]), return_exceptions=True)
        assert [ends[0], ends[2]] == ["1", "2"]
        assert isinstance(ends[1], LookupError)

    tell(story, Stage(picky, 4, idempotent=True))


def learn(pipeline: Pipeline[str, str], calls: int = 5) -> Awaitable[Any]:
    """Run so many items, one after another: then predictions are trusted."""

    async def one_after_another() -> None:
        for number in range(calls):
            await pipeline(str(number))

    return one_after_another()


def test_what_the_stages_together_cannot_do_in_time_is_refused_at_the_entrance() -> None:
    """Of what could not get through the slow last stage in time, the first stage sees nothing."""
    first, second = Step("a", 0.01), Step("b", 0.1)

    async def story(pipeline: Pipeline[str, str]) -> None:
        await learn(pipeline)
        batches = len(first.batches)
        ahead = asyncio.ensure_future(pipeline("ahead"))
        await asyncio.sleep(0.011)  # in the second stage
        with pytest.raises(Overloaded, match="through 2 stages within 150 ms") as refused:
            await pipeline("late", max_latency=0.15)
        assert len(first.batches) == batches + 1
        assert refused.value.retry_after == pytest.approx(0.049 * 1.05)
        await asyncio.sleep(refused.value.retry_after)
        assert await pipeline("later", max_latency=0.16) == "laterab"
        assert await ahead == "aheadab"
        assert pipeline.stats().requests[JobOutcome.SHED] == 1

    tell(story, Stage(first, max_batch_size=4), Stage(second, max_batch_size=4))


def test_a_stage_leaves_the_later_ones_the_time_that_they_need() -> None:
    """A first batch that is slow for once costs its items the second stage's work no more."""
    first, second = Step("a", 0.01), Step("b", 0.1)

    async def story(pipeline: Pipeline[str, str]) -> None:
        await learn(pipeline)
        batches = len(second.batches)
        first.seconds = 0.06
        loop = asyncio.get_running_loop()
        begun = loop.time()
        with pytest.raises(DeadlineExceeded):
            await pipeline("late", max_latency=0.15)
        assert loop.time() - begun == pytest.approx(0.05)  # 0.15 - 0.1
        assert len(second.batches) == batches

    tell(story, Stage(first, max_batch_size=4), Stage(second, max_batch_size=4))


def test_a_prediction_that_is_wrong_is_put_to_the_test() -> None:
    """When everything has been refused for as long as one is ready to wait, one is let in."""
    first, second = Step("a", 0.01), Step("b", 1.0)

    async def story(pipeline: Pipeline[str, str]) -> None:
        await learn(pipeline, 20)
        second.seconds = 0.1  # from now on
        answers = 0
        for number in range(20):
            try:
                answers += await pipeline(str(number), max_latency=0.5) == f"{number}ab"
            except Overloaded as refusal:
                await asyncio.sleep(refusal.retry_after)
        assert answers >= 17

    tell(story, Stage(first, max_batch_size=4), Stage(second, max_batch_size=4))


def test_a_later_stage_that_turns_an_item_away_was_too_slow() -> None:
    """Work was done for it already, so that is no refusal: it is not safe to send it again."""
    first, second = Step("a", 0.1), Step("b", 0.1)

    async def story(pipeline: Pipeline[str, str]) -> None:
        await learn(pipeline)
        one = asyncio.ensure_future(pipeline("1"))
        await asyncio.sleep(0.05)
        second.seconds = 0.5
        with pytest.raises(DeadlineExceeded):
            await pipeline("2", max_latency=0.36)
        assert await one == "1ab"
        assert pipeline.stats().requests[JobOutcome.EXPIRED] == 1

    tell(story, Stage(first, max_batch_size=1), Stage(second, max_batch_size=1))


def linear(fixed: float, per_item: float) -> Callable[[list[str]], Awaitable[list[str]]]:
    async def stage(items: list[str]) -> list[str]:
        await asyncio.sleep(fixed + per_item * len(items))
        return items

    return stage


@pytest.mark.no_cover
def test_overload() -> None:
    """At more than twice of what the slowest stage can do, nearly all of that is answered in time.

    The others are refused at the entrance, not on the way.
    """
    chance = random.Random(1)
    capacity = 32 / (0.02 + 32 * 0.001)  # items/s

    async def story(pipeline: Pipeline[str, str]) -> None:
        calls = []
        for _ in range(int(2.5 * capacity * 4.0)):
            await asyncio.sleep(chance.expovariate(2.5 * capacity))
            calls.append(asyncio.ensure_future(pipeline("1")))
        await asyncio.gather(*calls, return_exceptions=True)
        requests = pipeline.stats().requests
        assert requests[JobOutcome.DONE] > 0.95 * capacity * 4.0
        assert requests[JobOutcome.EXPIRED] < 0.1 * requests[JobOutcome.SHED]

    stages = [linear(0.005, 0.0002), linear(0.02, 0.001), linear(0.003, 0.0001)]
    tell(story, *(Stage(each, 32) for each in stages), max_latency=0.15)


@pytest.mark.no_cover
def test_overload_of_many_unlike_stages() -> None:
    """Stages that do not keep step lose little: whom they let in at the entrance they answer."""
    chance = random.Random(1)
    capacity = 8 / 0.02  # items/s, of the fourth

    async def story(pipeline: Pipeline[str, str]) -> None:
        await learn(pipeline, 20)
        calls = []
        for _ in range(int(1.5 * capacity * 4.0)):
            await asyncio.sleep(chance.expovariate(1.5 * capacity))
            calls.append(asyncio.ensure_future(pipeline("1")))
        await asyncio.gather(*calls, return_exceptions=True)
        requests = pipeline.stats().requests
        assert requests[JobOutcome.DONE] > 0.95 * capacity * 4.0
        assert requests[JobOutcome.EXPIRED] < 0.1 * requests[JobOutcome.SHED]

    singles, sizes = linear(0.01, 0.0), (32, 8, 64)
    stages = (Stage(linear(0.02, 0.0), size) for size in sizes)
    alternating = [each for some in stages for each in (Stage(singles, 1, workers=20), some)]
    tell(story, *alternating, max_latency=0.2)


def test_single_items_after_a_bulk() -> None:
    """The large batches that were learned from do not make the pipeline refuse small ones."""

    async def story(pipeline: Pipeline[str, str]) -> None:
        await pipeline.map("1" * 2000)  # batches of 64, which take 69 ms in each stage
        for _ in range(10):
            assert await pipeline("1", max_latency=0.15) == "1"

    tell(story, *(Stage(linear(0.005, 0.001), 64) for _ in range(3)))


def test_back_pressure() -> None:
    """A slow stage fills the one before it, and at last the entrance refuses, for more than 0 s."""
    first, second = Step("a", 0.001), Step("b", 1.0)

    async def story(pipeline: Pipeline[str, str]) -> None:
        calls = [asyncio.ensure_future(pipeline(str(n))) for n in range(4)]
        await asyncio.sleep(0.1)  # two of them have gone on
        calls += [asyncio.ensure_future(pipeline(str(n))) for n in range(4, 6)]
        await asyncio.sleep(0.1)  # the second stage holds two, the first keeps four ready
        with pytest.raises(QueueFull) as refused:
            await pipeline("too many")
        assert refused.value.retry_after >= 0.1  # for so long at least, the second stage works
        assert await asyncio.gather(*calls) == [f"{n}ab" for n in range(6)]

    tell(
        story,
        Stage(first, max_batch_size=1, max_queue=4),
        Stage(second, max_batch_size=1, max_queue=2),
    )


def test_several_items_are_let_in_together_or_not_at_all() -> None:
    """One that finds no room leaves no other in a stage; the rest of the places are still there."""
    first, second = Step("a", 1.0), Step("b", 1.0)

    async def story(pipeline: Pipeline[str, str]) -> None:
        ahead = asyncio.ensure_future(pipeline.call_all(["0", "1"]))
        await asyncio.sleep(0.5)
        with pytest.raises(QueueFull):
            await pipeline.call_all(["2", "3", "4"])
        together = asyncio.ensure_future(pipeline.call_all(["bad", "5"]))
        assert await ahead == ["0ab", "1ab"]
        failed, done = await together
        assert (str(failed), done) == ("bad", "5ab")
        assert pipeline.stats().under_way == 0
        outcomes = pipeline.stats().requests
        assert outcomes[JobOutcome.QUEUE_FULL] == 3
        assert outcomes[JobOutcome.DONE] == 3

    tell(story, Stage(first, max_batch_size=2, max_queue=4), Stage(second, max_batch_size=2))
    assert first.batches == [["0", "1"], ["bad", "5"]]


def test_what_several_items_need_together_is_refused_at_the_entrance() -> None:
    """An item that is let in counts for those behind it, before any stage has seen it."""

    async def story(pipeline: Pipeline[str, str]) -> None:
        await pipeline.map("1" * 50)  # batches of one, of 0.1 s each
        with pytest.raises(Overloaded, match="out of reach"):
            await pipeline.call_all("1" * 20, max_latency=1.0)
        assert pipeline.stats().under_way == 0
        assert await pipeline.call_all("1" * 5, max_latency=1.0) == ["1a"] * 5

    tell(story, Stage(Step("a", 0.1), max_batch_size=1))


@pytest.mark.parametrize("turns", range(4))
def test_several_items_whose_caller_leaves(turns: int) -> None:
    """Whenever that is, their places are free again, and each is counted once."""

    async def story(pipeline: Pipeline[str, str]) -> None:
        left = asyncio.ensure_future(pipeline.call_all(["1", "2"]))
        for _ in range(turns):
            await asyncio.sleep(0)
        left.cancel()
        await asyncio.gather(left, return_exceptions=True)
        assert await pipeline.call_all(["3", "4"]) == ["3a", "4a"]
        stats = pipeline.stats()
        assert (stats.under_way, stats.requests[JobOutcome.DONE]) == (0, 2)
        assert stats.requests[JobOutcome.CANCELLED] == (2 if turns else 0)

    tell(story, Stage(Step("a", 0.1), max_batch_size=1, max_queue=2))


def test_items_with_unlike_keys_share_no_batch() -> None:
    """Not in any stage."""
    first, second = Step("a", 0.01), Step("b", 0.02)

    async def story(pipeline: Pipeline[str, str]) -> None:
        calls = [pipeline(str(n), key=n % 2) for n in range(4)]
        assert await asyncio.gather(*calls) == [f"{n}ab" for n in range(4)]
        assert await pipeline.call_all(["4", "5"], keys=[0, 1]) == ["4ab", "5ab"]
        with pytest.raises(ValueError, match="keys: expected one for each of 2 items, got 1"):
            await pipeline.call_all(["4", "5"], keys=[0])

    tell(story, *(Stage(step, max_batch_size=4) for step in (first, second)))
    for step in (first, second):
        assert all(len({int(item[0]) % 2 for item in batch}) == 1 for batch in step.batches)


def test_no_room_in_time() -> None:
    """An item whose deadline comes while the next stage is full is told so."""
    first, second = Step("a", 0.001), Step("b", 1.0)

    async def story(pipeline: Pipeline[str, str]) -> None:
        ahead = [asyncio.ensure_future(pipeline(str(n))) for n in range(2)]
        await asyncio.sleep(0.1)
        with pytest.raises(DeadlineExceeded, match="had no room"):
            await pipeline("3", max_latency=0.2)
        assert await asyncio.gather(*ahead) == ["0ab", "1ab"]

    tell(story, Stage(first, max_batch_size=1), Stage(second, max_batch_size=1, max_queue=1))


def test_an_answer_that_a_late_loop_gives_after_the_deadline_is_late() -> None:
    """The last stage keeps the loop beyond the deadline: the caller gets the answer that is there.

    It counts as expired, in the pipeline as in the stage.
    """

    async def computes(items: list[str]) -> list[str]:
        hold_the_loop(0.3)
        return items

    async def story(pipeline: Pipeline[str, str]) -> None:
        assert await pipeline("1", max_latency=0.2) == "1a"
        stats = pipeline.stats()
        for requests in (stats.requests, stats.stages[-1].requests):
            assert {end: count for end, count in requests.items() if count} == {
                JobOutcome.EXPIRED: 1
            }

    tell(story, Stage(Step("a", 0.1), 4), Stage(computes, 4))


def test_results_find_their_callers_in_whatever_order_they_come() -> None:
    """Batches overtake each other on several workers; no result goes astray, no place is lost."""
    chance = random.Random(4)

    async def shuffled(items: list[str]) -> list[str | Exception]:
        await asyncio.sleep(chance.random())
        return [ValueError(item) if chance.random() < 0.1 else item + "!" for item in items]

    async def story(pipeline: Pipeline[str, str]) -> None:
        calls = [asyncio.ensure_future(pipeline(str(number))) for number in range(300)]
        await asyncio.sleep(0.5)
        for call in chance.sample(calls, 50):
            call.cancel()
        ends = await asyncio.gather(*calls, return_exceptions=True)
        done = failed = cancelled = 0
        for number, end in enumerate(ends):
            match end:
                case asyncio.CancelledError():
                    cancelled += 1
                case ValueError():
                    assert str(end).rstrip("!") == str(number)
                    failed += 1
                case _:
                    assert end == f"{number}!!!"
                    done += 1
        stats = pipeline.stats()
        counts = [stats.requests[JobOutcome(each)] for each in ("done", "failed", "cancelled")]
        assert counts == [done, failed, cancelled]
        assert min(counts) > 0
        assert stats.under_way == 0
        assert len(await asyncio.gather(*map(pipeline, "0" * 300), return_exceptions=True)) == 300

    several = [Stage(shuffled, 8, workers=3, max_queue=size) for size in (300, 20, 10)]
    tell(story, *several)


def test_another_event_loop() -> None:
    """A pipeline begins anew on the next loop, once the first has ended; not before."""

    async def same(items: list[str]) -> list[str]:
        return items

    pipeline = Pipeline[str, str]([Stage(same, 4), Stage(same, 4)])

    async def use() -> str:
        return await pipeline("a")

    async def while_it_runs() -> None:
        await use()
        with pytest.raises(WrongEventLoop):
            await asyncio.to_thread(asyncio.run, use())

    assert [asyncio.run(use()), asyncio.run(use())] == ["a", "a"]
    asyncio.run(while_it_runs())
    assert pipeline.stats().requests[JobOutcome.DONE] == 1


def test_closing_lets_everything_through() -> None:
    """Items between the stages, those waiting for room too, get through before the workers stop."""

    async def story(pipeline: Pipeline[str, str]) -> None:
        calls = [asyncio.ensure_future(pipeline(str(n))) for n in range(5)]
        await asyncio.sleep(0)
        await pipeline.aclose()
        assert await asyncio.gather(*calls) == [f"{n}ab" for n in range(5)]
        with pytest.raises(Draining):
            await pipeline("late")

    tell(
        story,
        Stage(Step("a", 0.01), max_batch_size=2),
        Stage(Step("b", 0.5), max_batch_size=1, max_queue=1),
    )


def test_closing_in_a_hurry() -> None:
    """Whom a stage has worked on is not told that he was refused before any work was done."""

    async def story(pipeline: Pipeline[str, str]) -> None:
        calls = [asyncio.ensure_future(pipeline(str(n))) for n in range(5)]
        await asyncio.sleep(0)
        await pipeline.aclose(0.7)
        ends = await asyncio.gather(*calls, return_exceptions=True)
        assert ends[0] == "0ab"
        assert all(isinstance(end, WorkerLost) for end in ends[1:])  # all had been at work: `a`

    tell(
        story,
        Stage(Step("a", 0.01), max_batch_size=2),
        Stage(Step("b", 0.5), max_batch_size=1),
    )


def test_closing_at_once() -> None:
    """Who waits for the first stage is refused: he may ask somebody else."""

    async def story(pipeline: Pipeline[str, str]) -> None:
        calls = [asyncio.ensure_future(pipeline(str(n))) for n in range(3)]
        await asyncio.sleep(0)
        await pipeline.aclose(0.1)
        ends = await asyncio.gather(*calls, return_exceptions=True)
        assert list(map(type, ends)) == [WorkerLost, Draining, Draining]

    tell(story, Stage(Step("a", 0.5), max_batch_size=1), Stage(Step("b", 0.5), max_batch_size=1))


async def test_a_deadline_that_is_over_at_once() -> None:
    """Its message says which stage it did not reach, and no time that is less than nothing."""
    async with Pipeline[str, str]([Stage(Step("a", 0.01), max_batch_size=2)]) as pipeline:
        with pytest.raises(DeadlineExceeded, match="before its turn in stage Step"):
            await pipeline("1", max_latency=1e-9)


class Half:
    """A stage in a process, for one item."""

    def __call__(self, number: float) -> float:
        if number < 0:
            raise ValueError(f"negative: {number}")
        return number / 2


class Sums:
    """A stage in a process, for many."""

    def __call__(self, numbers: list[float]) -> list[float]:
        return [number + 1 for number in numbers]


class WithSteps(Half):
    """A step of its own, for each of many."""

    def preprocess(self, number: float) -> float:
        return number


async def test_stages_in_processes_threads_and_on_the_loop() -> None:
    """A pipeline may mix them, and errors come through whole."""

    def thrice(number: float) -> float:
        return number * 3

    async def shown(numbers: list[float]) -> list[str]:
        return [f"{number:g}" for number in numbers]

    stages = [Stage(Half), Stage(Sums, max_batch_size=16), Stage(thrice), Stage(shown, 16)]
    async with Pipeline[float, str](stages, max_latency=30.0) as pipeline:
        assert await pipeline.map([2.0, 4.0, 6.0]) == ["6", "9", "12"]
        with pytest.raises(ValueError, match="negative: -1"):
            await pipeline(-1.0)
        stats = pipeline.stats()
        assert [stage.mean_batch_size > 0 for stage in stats.stages] == [True] * 4
        assert (stats.requests[JobOutcome.DONE], stats.requests[JobOutcome.FAILED]) == (3, 1)
        assert await asyncio.to_thread(pipeline.call_from_thread, 8.0) == "15"


class Fragile:
    """Dies of a negative number."""

    def __call__(self, numbers: list[int]) -> list[int]:
        if min(numbers) < 0:
            os._exit(3)
        return numbers


async def test_a_worker_that_dies() -> None:
    """Its batch is lost; items in the other stages, and those who come later, get through."""

    async def plus_one(number: int) -> int:
        return number + 1

    stages = [Stage(plus_one, workers=4), Stage(Fragile, max_batch_size=1), Stage(plus_one)]
    async with Pipeline[int, int](stages) as pipeline:
        numbers = (1, -5, 2)
        ends = await asyncio.gather(*map(pipeline, numbers), return_exceptions=True)
        assert [ends[0], ends[2]] == [3, 4]
        assert isinstance(ends[1], WorkerLost)
        assert pipeline.stats().requests[JobOutcome.FAILED] == 1


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Pipeline([]), ValueError, "at least one"),
        (lambda: Pipeline([len]), TypeError, r"expected Stage\(...\)"),  # type: ignore[list-item]
        (lambda: Pipeline([Stage(len)], max_latency=0), ValueError, "positive"),
        (lambda: Stage(3), TypeError, "as handler, got 3"),  # type: ignore[arg-type]
        (lambda: Stage(WithSteps), TypeError, "which are for each item of a list"),
        (lambda: Stage(len, max_batch_size=0), ValueError, "max_batch_size"),
        (lambda: Stage(len, max_batch_size=8, max_queue=4), ValueError, "max_queue"),
        (lambda: Stage(len, policy="gredy"), ValueError, "gredy"),
    ],
)
def test_mistakes(make: Callable[[], object], error: type[Exception], message: str) -> None:
    """They are found when the pipeline is written, and named."""
    with pytest.raises(error, match=message):
        make()
