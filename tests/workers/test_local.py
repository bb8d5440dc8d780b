"""Workers inside this process."""

import asyncio
import threading

import pytest

from adaptive_batching.errors import BatchFunctionError, WorkerStartError
from adaptive_batching.workers.interface import Health
from adaptive_batching.workers.local import TaskWorkers, ThreadWorkers
from tests.workers import handlers


def nothing():
    pass


async def test_tasks_run_the_handler_on_the_loop():
    """A batch is nothing but a call of the handler."""
    workers = TaskWorkers(handlers.double_async, 3)
    assert workers.health == Health(frozenset(), 3)
    await workers.start(nothing)
    assert workers.health == Health(frozenset({0, 1, 2}), 3)
    assert await workers.run([1, 2], 0) == [2, 4]
    await workers.aclose()
    await workers.aclose()


async def test_tasks_build_a_class_once_and_warm_it_up():
    """The one instance is warm before the first batch."""
    workers = TaskWorkers(handlers.Warmed, 2)
    await workers.start(nothing)
    assert await workers.run([1], 0) == [True]


async def test_tasks_hand_on_what_the_handler_raises():
    """Exceptions are not turned into anything else."""

    async def fails(items):
        raise KeyError(items)

    workers = TaskWorkers(fails, 1)
    await workers.start(nothing)
    with pytest.raises(KeyError):
        await workers.run([1], 0)


async def test_threads_build_a_class_once_in_each():
    """Each thread has its own instance, built, warmed up and called there."""
    workers = ThreadWorkers(handlers.WarmedInThread, 2)
    await workers.start(nothing)
    assert workers.health == Health(frozenset({0, 1}), 2)
    answers = [(await workers.run([1], worker))[0] for worker in (0, 1, 0, 1)]
    await workers.aclose()
    assert all(built == warmed == ran for built, warmed, ran in answers)
    assert answers[:2] == answers[2:]
    assert len(set(answers)) == 2
    assert threading.get_ident() not in answers[0]


async def raised_in_a_thread(error):
    """What who awaits a batch gets when its handler raises."""

    def fails(items):
        raise error

    workers = ThreadWorkers(fails, 1)
    await workers.start(nothing)
    with pytest.raises(BaseException) as caught:
        await workers.run([1], 0)
    await workers.aclose()
    return caught.value


async def test_threads_hand_on_what_the_handler_raises():
    """An exception reaches who awaits as it is."""
    error = KeyError("x")
    assert await raised_in_a_thread(error) is error


@pytest.mark.parametrize("exit_of", [SystemExit(2), KeyboardInterrupt()])
async def test_an_exit_in_a_thread_is_the_handlers_error(exit_of):
    """It ends no program: Ctrl-C comes to the main thread, so this one was made by the handler."""
    error = await raised_in_a_thread(exit_of)
    assert type(error) is BatchFunctionError
    assert error.__cause__ is exit_of


async def test_stop_iteration_in_a_thread_does_not_hang():
    """A future can't hold StopIteration: it must not get that far."""
    workers = ThreadWorkers(lambda items: next(iter([])), 1)
    await workers.start(nothing)
    with pytest.raises(RuntimeError, match="StopIteration"):
        await workers.run([1], 0)
    await workers.aclose()


async def test_a_cancelled_batch_is_not_mistaken_for_the_next():
    """The thread finishes what it computes, and then the next batch gets its own results."""
    go_on = threading.Event()

    def waits(items):
        if items == ["slow"]:
            go_on.wait(10)
        return items

    workers = ThreadWorkers(waits, 1)
    await workers.start(nothing)
    slow = asyncio.create_task(workers.run(["slow"], 0))
    await asyncio.sleep(0)
    slow.cancel()
    with pytest.raises(asyncio.CancelledError):
        await slow
    fast = asyncio.create_task(workers.run(["fast"], 0))
    go_on.set()
    assert await fast == ["fast"]
    await workers.aclose()


@pytest.mark.parametrize("kind", [TaskWorkers, ThreadWorkers])
async def test_a_handler_that_can_not_be_built(kind):
    """The message names the class and what went wrong."""

    class Broken(handlers.Warmed if kind is TaskWorkers else handlers.WarmedInThread):
        def __init__(self):
            raise RuntimeError("the weights are missing")

    with pytest.raises(WorkerStartError, match=r"Broken could not be built: RuntimeError: the wei"):
        await kind(Broken, 2).start(nothing)


def test_the_wrong_kind_of_handler():
    """Async handlers need tasks, others don't fit there."""
    with pytest.raises(TypeError, match="needs threads or processes"):
        TaskWorkers(handlers.double, 1)
    with pytest.raises(TypeError, match="needs no threads"):
        ThreadWorkers(handlers.double_async, 1)
