"""Steps that each item takes by itself, around the call that takes them all.

An item that fails in a step fails alone: its own exception stands in its place, and the rest of the
batch doesn't notice. The batch call is never made with an empty list.
"""

import asyncio
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from adaptive_batching.workers.handler.results import (
    FAILURES,
    CallRaised,
    check_results,
    is_stopped,
    merge,
)

Step = Callable[[Any], Any]
_Call = Callable[[list[Any]], Any]


class _Failed:
    """What a step makes of a value that it raises over."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


def with_steps(call: _Call, before: Step | None, after: Step | None, handler: str = "") -> _Call:
    """Return a batch call that takes each item through a step before it, and each result after it.

    A result that is an exception stands for its item and skips the step after.

    Args:
        call: Takes the list of what `before` returned.
        before: Takes one item; None if there is no such step.
        after: Takes one result; None if there is no such step.
        handler: The name of what is called, for messages.
    """

    def run(items: list[Any]) -> Sequence[Any]:
        taken = _taken(before, items)
        good = _good(taken)
        results: Sequence[Any] = []
        if size := len(good):  # the list is the handler's, which may change it
            try:
                results = check_results(call(good), size, handler)
            except FAILURES as error:
                if size == len(taken):
                    raise
                results = [CallRaised(error)] * size
        return _put_back(_finished(after, results), taken)

    return run


def with_awaited_steps(
    call: _Call, before: Step | None, after: Step | None, handler: str = ""
) -> _Call:
    """As `with_steps`, of a batch call that is awaited.

    Steps may be async, too: those of one batch are under way side by side.
    """

    async def run(items: list[Any]) -> Sequence[Any]:
        taken = await _awaited(before, _taken(before, items))
        good = _good(taken)
        results: Sequence[Any] = []
        if size := len(good):  # the list is the handler's, which may change it
            try:
                results = check_results(await call(good), size, handler)
            except FAILURES as error:
                if size == len(taken) or is_stopped(error):
                    raise
                results = [CallRaised(error)] * size
        return _put_back(await _awaited(after, _finished(after, results)), taken)

    return run


def _taken(before: Step | None, items: list[Any]) -> Sequence[Any]:
    return items if before is None else [_attempt(before, item) for item in items]


def _finished(after: Step | None, results: Sequence[Any]) -> Sequence[Any]:
    if after is None:
        return results
    return [
        each if issubclass(type(each), BaseException) else _attempt(after, each) for each in results
    ]


async def _awaited(step: Step | None, values: Sequence[Any]) -> Sequence[Any]:
    """What an async step has made coroutines of."""
    if not inspect.iscoroutinefunction(step):
        return values
    return await asyncio.gather(*map(_attempt_awaited, values))


def _attempt(step: Step, value: Any) -> Any:
    try:
        return step(value)
    except FAILURES as error:
        return _Failed(error)


async def _attempt_awaited(value: Any) -> Any:
    try:
        return await value if inspect.iscoroutine(value) else value
    except FAILURES as error:
        if is_stopped(error):
            raise
        return _Failed(error)


def _good(taken: Sequence[Any]) -> list[Any]:
    return [each for each in taken if type(each) is not _Failed]


def _put_back(finished: Sequence[Any], taken: Sequence[Any]) -> list[Any]:
    """Every result, or its error, in the place of its item."""
    results = [each.error if type(each) is _Failed else each for each in finished]
    own = [each.error if type(each) is _Failed else None for each in taken]
    return results if len(results) == len(taken) else merge(own, results)
