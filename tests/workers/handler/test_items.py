"""Steps that each item takes by itself: who fails there fails alone."""

import asyncio
import sys

import numpy as np
import pytest

from adaptive_batching.core import Limits
from adaptive_batching.dispatcher import Dispatcher
from adaptive_batching.errors import HandlerError, WorkerStartError
from adaptive_batching.workers.elsewhere import Processes
from adaptive_batching.workers.factory import make_workers
from adaptive_batching.workers.handler.items import with_awaited_steps, with_steps
from adaptive_batching.workers.handler.results import CallRaised
from adaptive_batching.workers.local import TaskWorkers, ThreadWorkers
from adaptive_batching.workers.placement import Tasks, Threads
from tests.workers import handlers

PLACES = {
    "threads": (handlers.Sensitive, Threads(1)),
    "tasks": (handlers.SensitiveLater, Tasks(1)),
    "processes": (handlers.Sensitive, Processes(1)),
    "async in a process": (handlers.SensitiveLater, Processes(1)),
}


def nothing():
    pass


async def endings(place, *items):
    """What becomes of items that come together, through a dispatcher: results and exceptions."""
    handler, placement = PLACES[place]
    async with (
        Dispatcher(make_workers(handler, placement), Limits()) as dispatcher,
    ):
        calls = (dispatcher.submit(item) for item in items)
        return await asyncio.gather(*calls, return_exceptions=True)


@pytest.mark.parametrize("place", PLACES)
async def test_an_item_that_fails_in_a_step_fails_alone(place):
    """Each with its own exception, wherever the handler runs; the others share one batch."""
    first, before, after, last = await endings(place, "1", "not a number", "-1", "2")
    assert (first, last) == ("1 of 3", "2 of 3")
    assert (type(before), before.args) == (ValueError, ("not a number",))
    assert (type(after), after.args) == (OverflowError, (-1,))


@pytest.mark.parametrize("place", PLACES)
async def test_what_the_batch_raises_reaches_only_its_members(place):
    """Who failed before it has an error of his own already."""
    first, before, zero = await endings(place, "1", "not a number", "0")
    assert (type(first), type(zero)) == (ZeroDivisionError, ZeroDivisionError)
    assert (type(before), before.args) == (ValueError, ("not a number",))


async def test_an_item_that_can_not_be_sent_has_its_own_error(started):
    """Also if the batch, which it never was in, raises."""
    pool = await started(handlers.Sensitive)
    results = await pool.run(["not a number", lambda: 0, "0"], 0)
    assert [type(each) for each in results] == [ValueError, HandlerError, CallRaised]
    assert isinstance(results[2].error, ZeroDivisionError)
    where, _, first, *_ = results[2].error.__notes__[0].splitlines()
    assert where == "In the worker process:"
    assert "tests/workers/handlers.py" in first  # none of our frames stands before the handler's


@pytest.mark.parametrize("wrap", [with_steps, with_awaited_steps])
async def test_a_batch_of_which_nothing_is_left_is_not_called(wrap):
    """The handler never gets an empty list."""

    def unreachable(items):
        raise AssertionError

    results = wrap(unreachable, int, str)(["a", "b"])
    if wrap is with_awaited_steps:
        results = await results
    assert list(map(type, results)) == [ValueError, ValueError]


def test_a_step_may_be_left_out():
    """One of them, or the other."""
    assert with_steps(lambda numbers: numbers, int, None)(["1", "2"]) == [1, 2]
    assert with_steps(lambda numbers: numbers, None, str)([1, 2]) == ["1", "2"]


def test_results_may_be_exceptions_or_rows_of_an_array():
    """What stands for an item is not postprocessed; an array is taken by its rows."""
    unlucky = KeyError("unlucky")
    assert with_steps(lambda items: [1, unlucky], None, str)([1, 2]) == ["1", unlucky]
    assert with_steps(lambda items: np.eye(2), None, sum)([1, 2]) == [1, 1]


def test_an_exit_in_a_step_is_the_items_own_failure():
    """It ends neither the batch nor the worker."""

    def leave(item):
        sys.exit(item)

    (error,) = with_steps(lambda items: items, leave, None)([3])
    assert isinstance(error, SystemExit)


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError()])
@pytest.mark.parametrize("wrap", [with_steps, with_awaited_steps])
async def test_an_exit_of_the_batch_call_reaches_only_its_members(wrap, error):
    """As any exception does: an item that was not in it has its own."""

    def leave(items):
        raise error

    async def leave_later(items):
        raise error

    call = wrap(leave if wrap is with_steps else leave_later, int, None)
    results = call(["1", "not a number"])
    raised, own = results if wrap is with_steps else await results
    assert (type(raised), raised.error) == (CallRaised, error)
    assert isinstance(own, ValueError)


async def test_async_steps_of_one_batch_are_under_way_side_by_side():
    """Each waits until all have begun."""
    barrier = asyncio.Barrier(3)

    async def meet(item):
        await barrier.wait()
        return item + 1

    async def identity(items):
        return items

    assert await with_awaited_steps(identity, meet, meet)([1, 2, 3]) == [3, 4, 5]


async def test_a_step_that_waits_for_what_is_cancelled_fails_alone():
    """It is not the batch that was cancelled; where it is, it ends."""
    gate, cancelled = (asyncio.get_running_loop().create_future() for _ in range(2))
    cancelled.cancel()
    begun = asyncio.Event()

    async def wait(item):
        begun.set()
        return await (cancelled if item == "cancelled" else gate)

    async def identity(items):
        return items

    batch = with_awaited_steps(identity, wait, None)
    running = asyncio.ensure_future(batch(["cancelled", "other"]))
    gate.set_result("waited")
    error, other = await running
    assert (type(error), other) == (asyncio.CancelledError, "waited")

    gate = asyncio.get_running_loop().create_future()
    begun.clear()
    running = asyncio.ensure_future(batch(["other"]))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_an_async_step_needs_an_async_handler():
    """A plain call could not wait for it; that is told at the start."""

    class Mixed(handlers.Sensitive):
        async def postprocess(self, result):
            raise NotImplementedError

    with pytest.raises(WorkerStartError, match=r"Mixed.postprocess to be a plain function"):
        await ThreadWorkers(Mixed, 1).start(nothing)


async def test_an_async_handler_may_have_plain_steps():
    """They are called as they are."""

    class Half(handlers.Sensitive):
        async def __call__(self, numbers):
            return super().__call__(numbers)

    workers = TaskWorkers(Half, 1)
    await workers.start(nothing)
    assert await workers.run(["7", "8"], 0) == ["7 of 2", "8 of 2"]
