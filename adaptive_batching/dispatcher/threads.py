"""A call from a plain thread into the event loop that answers it."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from adaptive_batching.errors import NoEventLoop, ReentrantCall

R = TypeVar("R")

_CHECK = 1.0  # seconds; a loop that stops does not tell threads that wait for it
_PAUSES = 2


def call_from_thread(
    loop: asyncio.AbstractEventLoop | None, call: Callable[[], Coroutine[Any, Any, R]]
) -> R:
    """Run a call on a loop that runs in another thread, and wait for its result here.

    Raises:
        NoEventLoop: The loop does not run, or ended before it answered.
        ReentrantCall: This is the loop's own thread.
        Exception: What the call raises.
    """
    if loop is None or not loop.is_running():
        msg = (
            "no event loop runs the batches that this call is to join: on a loop in another thread"
        )
        raise NoEventLoop(f"{msg}, enter `async with` the batched function or pipeline first")
    if _running_loop() is loop:
        msg = "expected a call from another thread than its event loop's, which is to answer: await"
        raise ReentrantCall(f"{msg} it here")
    coroutine = call()
    try:
        future: Future[R] = asyncio.run_coroutine_threadsafe(coroutine, loop)
    except RuntimeError as error:  # it was closed in this very moment
        coroutine.close()
        raise NoEventLoop("the event loop ended before it could be asked") from error
    pauses = 0  # checks in a row: between two runs of a loop one may find that it does not run
    try:
        while not wait([future], _CHECK).done and pauses < _PAUSES:
            pauses = 0 if loop.is_running() else _PAUSES if loop.is_closed() else pauses + 1
    except BaseException:  # Ctrl-C: the thread waits no more
        future.cancel()
        raise
    if future.cancelled() or not future.done():  # the end of `asyncio.run` cancels what is left
        if loop.is_closed():
            coroutine.close()
        else:
            future.cancel()  # if it runs again, it is to know that no thread waits
        raise NoEventLoop("the event loop ended before it answered")
    return future.result()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
