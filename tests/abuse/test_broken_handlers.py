"""What a broken or hostile handler may do: each caller gets an error, and the next batch works."""

import asyncio
import functools
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import numpy as np
import pytest

from adaptive_batching.core import JobOutcome, Limits
from adaptive_batching.dispatcher import Dispatcher
from adaptive_batching.errors import BatchFunctionError
from adaptive_batching.workers.elsewhere import Processes
from adaptive_batching.workers.factory import make_workers
from adaptive_batching.workers.local import TaskWorkers, ThreadWorkers
from tests.virtual_time import run_virtually


def virtually(story: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Tell a story in virtual time."""

    @functools.wraps(story)
    def told(*args: Any, **kwargs: Any) -> None:
        run_virtually(story(*args, **kwargs))

    return told


class Misbehaves:
    """Does something else with its first batch, and doubles the rest."""

    def __init__(self, first: Callable[[list[int]], Any]) -> None:
        self.first = first
        self.batches = 0

    def answer(self, items: list[int]) -> Any:
        self.batches += 1
        return self.first(items) if self.batches == 1 else [2 * item for item in items]


def dispatcher_of(kind: str, first: Callable[[list[int]], Any]) -> Dispatcher[int, Any]:
    """On the loop or in a thread."""
    handler = Misbehaves(first)

    async def in_task(items: list[int]) -> Any:
        return handler.answer(items)

    def in_thread(items: list[int]) -> Any:
        return handler.answer(items)

    workers = TaskWorkers(in_task, 1) if kind == "task" else ThreadWorkers(in_thread, 1)
    return Dispatcher(workers, Limits(4))


async def first_then_second(dispatcher: Dispatcher[int, Any]) -> list[Any]:
    """What three callers of the first batch get; the second batch must be right."""
    async with dispatcher:
        first = await asyncio.gather(
            *(dispatcher.submit(item) for item in range(3)), return_exceptions=True
        )
        second = await asyncio.gather(*(dispatcher.submit(item) for item in range(3)))
        assert second == [0, 2, 4]
        stats = dispatcher.stats()
        assert (stats.queued, stats.running, stats.workers) == (0, 0, 1)
        assert sum(stats.requests.values()) == 6
    return first


def raiser(error: BaseException) -> Callable[[list[int]], Any]:
    def first(items: list[int]) -> Any:
        raise error

    return first


class Odd(BaseException):
    """Not an Exception."""


both = pytest.mark.parametrize("kind", ["task", "thread"])


@both
@pytest.mark.parametrize(
    ("answer", "got"),
    [
        (lambda items: items[:-1], "got 2"),
        (lambda items: [*items, 1], "got 4"),
        (lambda items: [], "got 0"),
        (tuple, "got tuple"),
        (lambda items: None, "got NoneType"),
        (lambda items: 7, "got int"),
        (lambda items: "abc", "got str"),
        (lambda items: b"abc", "got bytes"),
        (dict.fromkeys, "got dict"),
        (set, "got set"),
        (lambda items: (item for item in items), "got generator"),
        (lambda items: map(str, items), "got map"),
        (lambda items: np.array(3.0), "got ndarray"),
        (lambda items: np.zeros((2, 3)), "got 2"),
        (lambda items: items.clear() or items, "got 0"),
    ],
)
async def test_what_is_no_list_of_results(
    kind: str, answer: Callable[[list[int]], Any], got: str
) -> None:
    """Wrong length or wrong type: every member is told what was expected and what came."""
    errors = await first_then_second(dispatcher_of(kind, answer))
    assert [type(error) for error in errors] == [BatchFunctionError] * 3
    assert all("expected" in str(error) and "3 results" in str(error) for error in errors)
    assert all(f"{got}:" in f"{error}:" for error in errors)  # advice follows


@both
@pytest.mark.parametrize(
    "error", [ValueError("bad"), TimeoutError(), RuntimeError(), ExceptionGroup("g", [OSError()])]
)
async def test_an_exception_reaches_every_member(kind: str, error: Exception) -> None:
    """As it is, not wrapped."""
    assert await first_then_second(dispatcher_of(kind, raiser(error))) == [error] * 3


@both
@pytest.mark.parametrize(
    "error",
    [
        asyncio.CancelledError(),
        SystemExit(3),
        GeneratorExit(),
        Odd("odd"),
        BaseExceptionGroup("g", [Odd()]),
    ],
)
async def test_an_exit_is_no_answer(kind: str, error: BaseException) -> None:
    """It ends neither the program nor the callers: they get an error that names it."""
    errors = await first_then_second(dispatcher_of(kind, raiser(error)))
    assert [type(error) for error in errors] == [BatchFunctionError] * 3
    assert all(type(error).__name__ in str(each) for each in errors)
    assert errors[0].__cause__ is error


class Mute(BaseException):
    """An exit whose message can't be had."""

    def __str__(self) -> str:
        raise RuntimeError("no message")


@both
async def test_an_exit_that_cannot_be_printed(kind: str) -> None:
    """Each member is told of its class, raised by the batch or in an item's place."""
    errors = await first_then_second(dispatcher_of(kind, raiser(Mute())))
    assert [type(error) for error in errors] == [BatchFunctionError] * 3
    answers = await first_then_second(dispatcher_of(kind, lambda items: [1, Mute(), 3]))
    assert (answers[0], type(answers[1]), answers[2]) == (1, BatchFunctionError, 3)
    assert "Mute" in str(answers[1])


@both
async def test_stop_iteration(kind: str) -> None:
    """A future can't hold it; Python makes a RuntimeError of it, and nobody hangs."""
    errors = await first_then_second(dispatcher_of(kind, raiser(StopIteration(1))))
    assert all("StopIteration" in str(error) for error in errors)
    assert [type(error) for error in errors] == [RuntimeError] * 3


@both
@pytest.mark.parametrize(
    "error", [StopIteration(1), asyncio.CancelledError(), SystemExit(3), KeyboardInterrupt(), Odd()]
)
async def test_such_an_error_in_an_items_place(kind: str, error: BaseException) -> None:
    """Only that item fails; its neighbours have their answers."""
    answers = await first_then_second(dispatcher_of(kind, lambda items: [1, error, 3]))
    assert (answers[0], answers[2]) == (1, 3)
    assert isinstance(answers[1], BatchFunctionError)
    assert type(error).__name__ in str(answers[1])


class Hiding(Exception):
    """Can't be asked what it is."""

    def __init__(self, raised: BaseException) -> None:
        super().__init__(raised)
        self.raised = raised

    @property
    def __class__(self) -> Any:
        raise self.raised


class Lazy:
    """A result that can't be asked either, as a proxy without its object can't."""

    @property
    def __class__(self) -> Any:
        raise RuntimeError("hidden")


hidden = pytest.mark.parametrize(
    "raised", [RuntimeError("hidden"), asyncio.CancelledError(), GeneratorExit()]
)


@both
@hidden
async def test_an_exception_that_hides_its_class(kind: str, raised: BaseException) -> None:
    """Each member gets an error that names it, and the worker takes the next batch."""
    errors = await first_then_second(dispatcher_of(kind, raiser(Hiding(raised))))
    assert [type(error) for error in errors] == [BatchFunctionError] * 3
    assert all("Hiding" in str(error) for error in errors)


@both
@hidden
async def test_what_hides_its_class_in_an_items_place(kind: str, raised: BaseException) -> None:
    """An exception fails that item alone; a result is its caller's."""
    answers = await first_then_second(dispatcher_of(kind, lambda items: [1, Hiding(raised), 3]))
    assert (answers[0], type(answers[1]), answers[2]) == (1, BatchFunctionError, 3)
    lazy = Lazy()
    answers = await first_then_second(dispatcher_of(kind, lambda items: [1, lazy, 3]))
    assert answers[1] is lazy


async def test_an_error_class_is_a_result() -> None:
    """Only instances are errors: a handler may answer with classes."""
    answers = await first_then_second(dispatcher_of("task", lambda items: [ValueError, 1, None]))
    assert answers == [ValueError, 1, None]


class Sly(Sequence[int]):
    """Claims three results and gives none."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: Any) -> Any:
        raise IndexError(index)


class Explosive(Sequence[int]):
    """Can't be asked for anything."""

    def __len__(self) -> int:
        raise OSError("boom")

    def __getitem__(self, index: Any) -> Any:
        raise OSError("boom")


@pytest.mark.parametrize(
    "answer",
    [
        Explosive(),
        Sly(),
    ],
)
@virtually
async def test_a_sequence_that_lies(answer: Any) -> None:
    """Whatever sharing out the results raises, every caller has an end and the permit returns."""
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # it may be told as well

    async def handler(items: list[int]) -> Any:
        return answer

    dispatcher = Dispatcher[int, Any](
        TaskWorkers(handler, 1), Limits(4), clock=asyncio.get_running_loop().time
    )
    calls = [asyncio.ensure_future(dispatcher.submit(item)) for item in range(3)]
    async with asyncio.timeout(60.0):
        errors = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(error, Exception) for error in errors)
    await dispatcher.aclose()


@virtually
async def test_a_handler_that_changes_its_list() -> None:
    """The list is the handler's own: emptying it harms nobody."""

    async def handler(items: list[int]) -> list[int]:
        results = [2 * item for item in items]
        items.clear()
        return results

    async with Dispatcher[int, int](
        TaskWorkers(handler, 1), Limits(4), clock=asyncio.get_running_loop().time
    ) as dispatcher:
        calls = (dispatcher.submit(item) for item in range(10))
        assert await asyncio.gather(*calls) == [2 * item for item in range(10)]


@virtually
async def test_a_handler_that_hangs() -> None:
    """Its callers expire at their deadlines, and closing with a timeout ends it."""

    async def handler(items: list[int]) -> list[int]:
        await asyncio.Event().wait()
        return items

    dispatcher = Dispatcher[int, int](
        TaskWorkers(handler, 1),
        Limits(1, max_latency=1.0),
        clock=asyncio.get_running_loop().time,
    )
    calls = [asyncio.ensure_future(dispatcher.submit(item)) for item in range(3)]
    await asyncio.sleep(2.0)
    assert [call.done() for call in calls] == [True, True, True]
    await dispatcher.aclose(timeout=1.0)
    assert asyncio.get_running_loop().time() == 3.0
    await asyncio.gather(*calls, return_exceptions=True)
    requests = dispatcher.stats().requests
    assert (requests[JobOutcome.FAILED], requests[JobOutcome.EXPIRED]) == (0, 3)


@virtually
async def test_a_handler_that_calls_itself() -> None:
    """With a worker left for it, a handler may await the very function that it serves."""

    async def handler(items: list[int]) -> list[int]:
        return [item if item == 0 else 1 + await dispatcher.submit(item - 1) for item in items]

    dispatcher = Dispatcher[int, int](
        TaskWorkers(handler, 5), Limits(4), clock=asyncio.get_running_loop().time
    )
    assert await dispatcher.submit(4) == 4
    await dispatcher.aclose()


def return_nonsense(items: list[int]) -> Any:
    """In a process: what can't be pickled, what is too short, an exit."""
    if items[0] == 0:
        return [lambda: None] * len(items)
    if items[0] == 1:
        return items[1:]
    if items[0] == 2:
        raise SystemExit(3)
    return items


async def test_a_broken_handler_in_a_process() -> None:
    """Results that can't travel, too few, an exit: errors for the callers, then it works."""
    workers = make_workers(return_nonsense, Processes(1))
    async with Dispatcher[int, Any](workers, Limits(1)) as dispatcher:
        for item in range(3):
            with pytest.raises(Exception, match=r"."):
                await dispatcher.submit(item)
        assert await dispatcher.submit(3) == 3


INTERRUPTED = """
import asyncio
from adaptive_batching import batched

@batched()
{kind} handler(items):
    if items == [0]:
        raise KeyboardInterrupt
    return items

async def main():
    print(type((await asyncio.gather(handler(0), return_exceptions=True))[0]).__name__)
    print(await handler(1))

asyncio.run(main())
"""


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_an_interrupt_raised_by_a_handler(kind: str) -> None:
    """An interrupt that isn't Ctrl-C's is the handler's error like others."""
    program = INTERRUPTED.format(kind=kind)
    command = [sys.executable, "-W", "error", "-c", program]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.stderr) == ("BatchFunctionError\n1\n", "")


def test_ctrl_c_in_a_handler_ends_the_program() -> None:
    """Where nothing handles its signal, it raises in whatever runs: also in a handler."""
    program = INTERRUPTED.format(kind="async def").replace(
        "asyncio.run(main())", "asyncio.new_event_loop().run_until_complete(main())"
    )
    command = [sys.executable, "-c", program.replace("raise KeyboardInterrupt", INTERRUPTS)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.returncode) == ("", -signal.SIGINT)


INTERRUPTS = "import signal; signal.raise_signal(signal.SIGINT)"
