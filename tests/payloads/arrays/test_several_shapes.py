"""A call over items of one shape fails: they are told the same as without other shapes."""

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from adaptive_batching import Processes, Tasks, Threads, cooperative
from adaptive_batching.configured_handler import configured
from adaptive_batching.core import Limits
from adaptive_batching.dispatcher import Dispatcher
from adaptive_batching.errors import BatchFunctionError, WorkerLost
from adaptive_batching.workers.factory import make_workers
from adaptive_batching.workers.handler.handler import build

Array = NDArray[np.float64]


def stop(x: Array) -> Any:
    raise StopIteration(3)


def leave(x: Array) -> Any:
    sys.exit(3)


def cancel(x: Array) -> Any:
    raise asyncio.CancelledError


def shorter(x: Array) -> Any:
    return x[1:]


def of_names(x: Array) -> Any:
    return {"sum": x[1:]}


def no_list(x: Array) -> Any:
    return "text"


WAYS = [shorter, of_names, no_list, stop, leave, cancel]


def sums(x: Array) -> Any:
    """Add up; rows of three numbers go wrong in the way that the first of them says."""
    return WAYS[int(x[0, 0])](x) if x.shape[1] == 3 else x.sum(axis=1)


async def sums_later(x: Array) -> Any:
    return sums(x)


PLACES = {
    "threads": (sums, Threads(1)),
    "tasks": (sums_later, Tasks(1)),
    "processes": (sums, Processes(1)),
}


@pytest.fixture(params=PLACES)
async def dispatcher(request: pytest.FixtureRequest) -> Any:
    handler, placement = PLACES[request.param]
    workers = make_workers(configured(handler), placement)
    async with Dispatcher[Any, Any](workers, Limits(8)) as dispatcher:
        yield dispatcher


async def together(dispatcher: Dispatcher[Any, Any], items: list[Any]) -> list[Any]:
    """What becomes of items that share a batch."""
    before = dispatcher.stats().batches
    calls = map(dispatcher.submit, items)
    told = await asyncio.gather(*calls, return_exceptions=True)
    assert dispatcher.stats().batches == before + 1
    return told


def shown(errors: list[Any]) -> list[str]:
    return [f"{type(error).__name__}: {error}" for error in errors]


@pytest.mark.parametrize("way", WAYS)
async def test_what_items_of_one_shape_are_told(
    dispatcher: Dispatcher[Any, Any], way: Callable[..., Any]
) -> None:
    """The same as alone in their batch, and the items of the other shape are answered."""
    good, bad = np.ones(2), np.full(3, WAYS.index(way), float)
    alone = await together(dispatcher, [bad, bad])
    first, other, last = await together(dispatcher, [bad, good, bad])
    assert other == 2
    assert shown([first, last]) == shown(alone)
    assert isinstance(first, RuntimeError if way is stop else BatchFunctionError)


@pytest.mark.parametrize("wrong", [shorter, of_names, no_list])
def test_threads_that_batch_for_one_another_are_told_the_handlers_name(
    wrong: Callable[..., Any],
) -> None:
    """As callers of `@batched` are, beside other shapes or not."""
    queue = cooperative(sums)
    bad = np.full(3, WAYS.index(wrong), float)
    alone = [queue.submit(bad), queue.submit(bad)]
    with pytest.raises(BatchFunctionError) as told:
        alone[0].result()
    assert str(told.value).startswith("sums: ")
    beside = [queue.submit(bad), queue.submit(np.ones(2)), queue.submit(bad)]
    assert beside[1].result() == 2
    with pytest.raises(BatchFunctionError) as told_beside:
        beside[0].result()
    assert str(told_beside.value) == str(told.value)


def test_an_exit_is_that_of_the_thread_that_ran_the_batch() -> None:
    """The others with items of its shape are told so; the other shape is answered."""
    queue = cooperative(sums)
    bad = np.full(3, WAYS.index(leave), float)
    first, other, last = [queue.submit(item) for item in (bad, np.ones(2), bad)]
    with pytest.raises(SystemExit, match="3"):
        other.result()
    assert other.result() == 2
    for handle in (first, last):
        with pytest.raises(WorkerLost, match="that ran this batch was stopped: SystemExit: 3"):
            handle.result()


async def test_a_batch_that_is_not_wanted_any_more_ends() -> None:
    """Its cancellation is not taken for a failure of the call that it finds under way."""
    begun, calls = asyncio.Event(), 0

    async def wait(x: Array) -> Array:
        nonlocal calls
        calls += 1
        begun.set()
        return await asyncio.get_running_loop().create_future()

    call, _ = build(configured(wait))
    batch: Any = asyncio.ensure_future(call([np.ones(2), np.ones(3)]))
    await begun.wait()
    batch.cancel()
    with pytest.raises(asyncio.CancelledError):
        await batch
    assert calls == 1


def test_ctrl_c_ends_the_batch() -> None:
    """No call is made after it."""
    calls = 0

    def interrupted(x: Array) -> Array:
        nonlocal calls
        calls += 1
        raise KeyboardInterrupt

    call, _ = build(configured(interrupted))
    with pytest.raises(KeyboardInterrupt):
        call([np.ones(2), np.ones(3)])
    assert calls == 1
