"""Batches that fail and run again in parts, live: who is told what, and nobody twice."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from adaptive_batching.core import JobOutcome, Limits, Reason, Verdict
from adaptive_batching.dispatcher import Dispatcher
from adaptive_batching.errors import (
    DeadlineExceeded,
    Draining,
    Overloaded,
    RemoteError,
    UpstreamRefusal,
    UpstreamUnreachable,
    WorkerLost,
)
from adaptive_batching.marshal.sidecar.upstream.messages import Reply
from adaptive_batching.wire.exchange import Message
from adaptive_batching.workers.handler.results import CallRaised
from adaptive_batching.workers.local import TaskWorkers
from tests.virtual_time import run_virtually


class Picky:
    """Takes a second, and raises if a word is in the batch."""

    def __init__(self, word: str = "bad") -> None:
        self.word = word
        self.batches: list[list[str]] = []

    async def __call__(self, words: list[str]) -> list[str]:
        self.batches.append(words)
        await asyncio.sleep(1.0)
        if self.word in words:
            raise ValueError(self.word)
        return [word.upper() for word in words]


class Listener:
    """Hears how each call ends."""

    def __init__(self) -> None:
        self.heard: Counter[JobOutcome] = Counter()

    def batch_ended(self, batch: Any, record: Any) -> None:
        """It is told of jobs as well."""

    def jobs_ended(self, jobs: Any, outcome: JobOutcome, now: float, batch: Any) -> None:
        self.heard[outcome] += len(jobs)


def picky_dispatcher(
    handler: Any, *observers: Any, count: int = 1, **limits: Any
) -> Dispatcher[str, str]:
    return Dispatcher(
        TaskWorkers(handler, count),
        Limits(**limits),
        policy="greedy",
        idempotent=True,
        clock=asyncio.get_running_loop().time,
        observers=observers,
    )


def calls(dispatcher: Dispatcher[str, str], words: str, **options: Any) -> list[asyncio.Task[str]]:
    return [asyncio.ensure_future(dispatcher.submit(word, **options)) for word in words.split()]


async def ends(tasks: list[asyncio.Task[str]]) -> list[Any]:
    async with asyncio.timeout(100):
        return await asyncio.gather(*tasks, return_exceptions=True)


def test_only_the_guilty_gets_the_error() -> None:
    """The others are answered, and everybody is told, and counted, once."""

    async def story() -> None:
        handler, listener = Picky(), Listener()
        async with picky_dispatcher(handler, listener) as dispatcher:
            *good, bad = await ends(calls(dispatcher, "a b c d e f g bad"))
            stats = dispatcher.stats()
        assert good == list("ABCDEFG")
        assert (type(bad), bad.args) == (ValueError, ("bad",))
        assert [len(batch) for batch in handler.batches] == [8, 4, 4, 2, 2, 1, 1]
        assert listener.heard == {JobOutcome.DONE: 7, JobOutcome.FAILED: 1}
        assert stats.requests[JobOutcome.DONE] == 7
        assert stats.requests[JobOutcome.FAILED] == 1
        assert stats.releases[Reason.BISECT] == 6
        assert stats.verdicts[Verdict.INNOCENT] == 7
        assert stats.verdicts[Verdict.GUILTY] == 1

    run_virtually(story())


def test_parts_of_a_failed_batch_run_side_by_side() -> None:
    """On whatever workers are free: three rounds of a second after the first, not six."""

    async def story() -> None:
        loop = asyncio.get_running_loop()
        async with picky_dispatcher(Picky(), count=4) as dispatcher:
            begin = loop.time()
            await ends(calls(dispatcher, "a b c d e f g bad"))
            assert loop.time() - begin == pytest.approx(4.0)

    run_virtually(story())


def test_callers_may_leave_before_and_while_they_run_again() -> None:
    """Nobody computes what nobody waits for."""

    async def story() -> None:
        handler, listener = Picky(), Listener()
        async with picky_dispatcher(handler, listener) as dispatcher:
            tasks = calls(dispatcher, "gone waits bad runs")
            await asyncio.sleep(0.5)
            tasks[0].cancel()  # while its first batch runs
            await asyncio.sleep(1.0)  # the first of two parts runs now
            tasks[3].cancel()
            assert await asyncio.wait_for(tasks[1], 100) == "WAITS"
            _, _, bad, _ = await ends(tasks)
            assert isinstance(bad, ValueError)
        assert handler.batches[1:] == [["waits", "bad"], ["waits"], ["bad"]]
        assert listener.heard == {
            JobOutcome.DONE: 1,
            JobOutcome.FAILED: 1,
            JobOutcome.CANCELLED: 2,
        }

    run_virtually(story())


def test_nobody_waits_beyond_his_deadline_for_another_run() -> None:
    """Whose time is over before it could end gets the error of his batch, at once; who is let in
    and has to wait too long gets his deadline's.
    """

    async def story() -> None:
        loop = asyncio.get_running_loop()
        async with picky_dispatcher(Picky()) as dispatcher:
            for _ in range(3):
                await dispatcher.submit("a")
            begin = loop.time()
            hurried = calls(dispatcher, "a", max_latency=1.5)
            patient = calls(dispatcher, "b c bad", max_latency=2.5)
            (late,) = await ends(hurried)
            assert (type(late), loop.time() - begin) == (ValueError, 1.0)
            (first, *_, last) = await ends(patient)
            assert first == "B"
            assert isinstance(last, DeadlineExceeded)
            assert loop.time() - begin == pytest.approx(2.5)

    run_virtually(story())


def test_a_servers_refusal_is_told_to_nobody_who_may_be_innocent() -> None:
    """A batch holds requests of several clients: who has no time to be sent apart is told so, and
    not what the server said about somebody else's.
    """

    async def story() -> None:
        async def refuses(words: list[str]) -> list[str]:
            await asyncio.sleep(1.0)
            if "bad" in words:
                raise UpstreamRefusal(Reply(400, Message(b"bad", {}), 1, len(words), 1.0))
            return words

        async with picky_dispatcher(refuses) as dispatcher:
            for _ in range(3):
                await dispatcher.submit("a")
            hurried = calls(dispatcher, "a b", max_latency=1.5)
            (bad,) = calls(dispatcher, "bad")
            assert [type(end) for end in await ends(hurried)] == [DeadlineExceeded] * 2
            (guilty,) = await ends([bad])
            assert isinstance(guilty, UpstreamRefusal)

    run_virtually(story())


def test_errors_about_load_and_time_are_not_repeated() -> None:
    """Another batch would be told the same, and would add to it."""

    async def story() -> None:
        batches = []

        async def busy(items: list[str]) -> list[str]:
            batches.append(items)
            raise Overloaded("behind another dispatcher", retry_after=1.0)

        async with picky_dispatcher(busy) as dispatcher:
            assert {type(end) for end in await ends(calls(dispatcher, "a b c"))} == {Overloaded}
        assert len(batches) == 1

    run_virtually(story())


def test_who_has_an_error_of_his_own_is_not_run_again() -> None:
    """It was not in the batch call, so it can't be the one to blame for that."""

    async def story() -> None:
        batches = []

        async def aside(items: list[str]) -> list[Any]:
            batches.append(items)
            if "bad" in items:
                raised = CallRaised(ValueError("bad"))
                return [KeyError(item) if item == "odd" else raised for item in items]
            return items

        async with picky_dispatcher(aside) as dispatcher:
            a, odd, bad = await ends(calls(dispatcher, "a odd bad"))
        assert (a, type(odd), type(bad)) == ("a", KeyError, ValueError)
        assert batches[1:] == [["a"], ["bad"]]

    run_virtually(story())


@pytest.mark.parametrize("words", ["unsent bad", "bad unsent"])
def test_what_one_call_of_a_batch_says_lets_no_other_run_again(words: str) -> None:
    """One did not reach the server, the other did: that may have begun, and is not idempotent."""

    async def story() -> None:
        ran: Counter[str] = Counter()
        errors = {"unsent": UpstreamUnreachable("no connection"), "bad": ValueError("has begun")}

        async def in_two_calls(items: list[str]) -> list[Any]:
            ran.update(items)
            return [CallRaised(errors[item]) for item in items]

        workers, limits = TaskWorkers(in_two_calls, 1), Limits()
        clock = asyncio.get_running_loop().time
        async with Dispatcher(workers, limits, policy="greedy", clock=clock) as dispatcher:
            told = await ends(calls(dispatcher, words))
        assert {type(each) for each in told} == {UpstreamUnreachable, ValueError}
        assert ran["bad"] == 1

    run_virtually(story())


def test_who_is_answered_beside_a_call_that_raises_again_is_innocent() -> None:
    """The verdict on the others is the scheduler's."""

    async def story() -> None:
        async def in_calls(items: list[str]) -> list[Any]:
            if len(items) > 2:
                raise ValueError("which one?")
            raised = CallRaised(ValueError("bad"))
            return [raised if item == "bad" else item for item in items]

        async with picky_dispatcher(in_calls) as dispatcher:
            await ends(calls(dispatcher, "a bad b c"))
            verdicts = dispatcher.stats().verdicts
        assert (verdicts[Verdict.INNOCENT], verdicts[Verdict.GUILTY]) == (3, 1)

    run_virtually(story())


def test_a_batch_of_which_nothing_was_run_teaches_nothing() -> None:
    """Such as one of malformed items: refused at once, they say nothing of how long others take."""

    async def story() -> None:
        async def slow(items: list[str]) -> list[Any]:
            if items == ["bad"]:
                return [ValueError("bad")]
            await asyncio.sleep(1.0)
            return items

        async with picky_dispatcher(slow) as dispatcher:
            for _ in range(3):
                await dispatcher.submit("a")
            learned = dispatcher.stats().fixed, dispatcher.stats().per_item
            for _ in range(50):
                await ends(calls(dispatcher, "bad"))
            assert (dispatcher.stats().fixed, dispatcher.stats().per_item) == learned

    run_virtually(story())


def test_who_is_told_his_error_in_the_second_run_is_guilty() -> None:
    """Whether the handler raises or returns it."""

    async def story() -> None:
        async def particular(items: list[str]) -> list[Any]:
            if len(items) > 1:
                raise ValueError("one at a time")
            return [KeyError("bad") if item == "bad" else item for item in items]

        async with picky_dispatcher(particular) as dispatcher:
            assert isinstance((await ends(calls(dispatcher, "a bad")))[1], KeyError)
            verdicts = dispatcher.stats().verdicts
        assert (verdicts[Verdict.INNOCENT], verdicts[Verdict.GUILTY]) == (1, 1)

    run_virtually(story())


def test_closing_lets_members_run_again() -> None:
    """A drain ends when they have their answers."""

    async def story() -> None:
        dispatcher = picky_dispatcher(Picky())
        await dispatcher.start()
        tasks = calls(dispatcher, "a b bad")
        await asyncio.sleep(0.5)
        await dispatcher.aclose()
        assert all(task.done() for task in tasks)
        assert (await ends(tasks))[:2] == ["A", "B"]

    run_virtually(story())


def test_a_drain_that_is_over_starts_nothing_again() -> None:
    """Not even if the handler turns its cancellation into an error of its own."""

    async def story() -> None:
        async def stubborn(items: list[str]) -> list[str]:
            try:
                await asyncio.sleep(60.0)
            except asyncio.CancelledError:
                raise ValueError("interrupted") from None
            raise AssertionError

        dispatcher = picky_dispatcher(stubborn, max_batch_size=2)
        await dispatcher.start()
        tasks = calls(dispatcher, "a b c")
        await asyncio.sleep(0.5)
        await dispatcher.aclose(timeout=1.0)
        kinds = [type(end) for end in await ends(tasks)]
        assert kinds == [ValueError, ValueError, Draining]

    run_virtually(story())


def test_a_death_is_told_as_it_is_to_those_who_may_not_run_again() -> None:
    """Without `idempotent` everything is as it was: one run, and its error for all."""

    async def story() -> None:
        batches = []

        async def dies(items: list[str]) -> list[str]:
            batches.append(items)
            raise WorkerLost("killed")

        dispatcher: Dispatcher[str, str] = Dispatcher(TaskWorkers(dies, 1), Limits())
        async with dispatcher:
            assert {type(end) for end in await ends(calls(dispatcher, "a b"))} == {WorkerLost}
        assert batches == [["a", "b"]]
        assert dispatcher.stats().verdicts == dict.fromkeys(Verdict, 0)

    run_virtually(story())


class OutOfMemoryError(RuntimeError):
    """What PyTorch calls its own."""


class Cramped:
    """Has memory for so many items."""

    def __init__(self, room: int, error: Exception) -> None:
        self.room, self.error = room, error
        self.sizes: list[int] = []

    async def __call__(self, words: list[str]) -> Sequence[Any]:
        self.sizes.append(len(words))
        await asyncio.sleep(1.0)
        if len(words) <= self.room:
            return words
        if isinstance(self.error, CallRaised):  # by itself no handler returns that
            return [self.error] * len(words)
        raise self.error


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
        RemoteError("torch.OutOfMemoryError: CUDA out of memory"),
        CallRaised(MemoryError()),
    ],
)
@pytest.mark.parametrize("idempotent", [True, False])
def test_a_handler_that_runs_out_of_memory_gets_smaller_batches(
    error: Exception, *, idempotent: bool
) -> None:
    """Its batch runs again in halves, or fails; either way those that follow are half as large."""

    async def story() -> None:
        handler = Cramped(4, error)
        clock = asyncio.get_running_loop().time
        workers, limits = TaskWorkers(handler, 1), Limits(8)
        options: dict[str, Any] = {"policy": "greedy", "idempotent": idempotent, "clock": clock}
        async with Dispatcher(workers, limits, **options) as dispatcher:
            answers = await ends(calls(dispatcher, "a b c d e f g h"))
            assert (answers == [*"abcdefgh"]) is idempotent
            assert await ends(calls(dispatcher, "a b c d e f g h")) == [*"abcdefgh"]
        assert handler.sizes == [8] + [4] * (4 if idempotent else 2)

    run_virtually(story())


@pytest.mark.parametrize("error", [ValueError("OutOfMemoryError"), RemoteError("MemoryErrors: 1")])
def test_a_handler_that_raises_anything_else_keeps_its_size(error: Exception) -> None:
    """Its batch may have failed over one item."""

    async def story() -> None:
        handler = Cramped(4, error)
        clock = asyncio.get_running_loop().time
        workers = TaskWorkers(handler, 1)
        async with Dispatcher(workers, Limits(8), policy="greedy", clock=clock) as dispatcher:
            for _ in range(2):
                await ends(calls(dispatcher, "a b c d e f g h"))
        assert handler.sizes == [8, 8]

    run_virtually(story())
