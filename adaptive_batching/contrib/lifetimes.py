"""Batched functions and classes that live as long as an application of another framework."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, TypeAlias

Running: TypeAlias = AbstractAsyncContextManager[Any]


def check(batched: tuple[Running, ...]) -> None:
    """See whether each can be started and closed.

    Raises:
        TypeError: One is a plain function or class, say.
    """
    for each in batched:
        if not (hasattr(type(each), "__aenter__") and hasattr(type(each), "__aexit__")):
            msg = (
                f"lifespan: expected what `async with` starts and closes, got {each!r}: give what"
                " `batched(…)` made of a function or class"
            )
            raise TypeError(msg)


@asynccontextmanager
async def running(batched: tuple[Running, ...]) -> AsyncIterator[None]:
    """Have all of them started; at the end they finish what waits, the last one first."""
    async with AsyncExitStack() as stack:
        for each in batched:
            await stack.enter_async_context(each)
        yield
