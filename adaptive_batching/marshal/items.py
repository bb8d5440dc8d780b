"""Between the JSON bodies that the marshal passes on unread and the values that a handler wants.

It runs where the handler runs, in a worker process as a rule, so that the process that answers all
connections never reads or writes JSON.
"""

from collections.abc import Callable
from typing import Any

from adaptive_batching.errors import BatchFunctionError
from adaptive_batching.pipeline import Stage
from adaptive_batching.pipeline.stage import Wrap, one_by_one
from adaptive_batching.wire.strict_json import decode, encode
from adaptive_batching.workers.handler import is_async
from adaptive_batching.workers.items import with_awaited_steps, with_steps

_Call = Callable[[list[Any]], Any]


def per_item(handler: _Call) -> Callable[[list[bytes]], Any]:
    """Turn a handler of a list of Python values into one of a list of JSON bodies.

    A body that can't be read never reaches the handler, and a result that can't be written harms
    nobody else: an error stands in its place. The handler is not called with an empty list.
    """
    return _steps(handler)(handler, decode, _encoded)


def reading(handler: _Call) -> _Call:
    """Turn a handler into one of JSON bodies: that of a pipeline's first stage."""
    return _steps(handler)(handler, decode, None)


def writing(handler: _Call) -> _Call:
    """Let a handler return JSON: that of a pipeline's last stage."""
    return _steps(handler)(handler, None, _encoded)


def wrap_of_stage(stage: Stage, number: int, stages: int) -> Wrap | None:
    """What a stage's handler is put into, the first one's number being 0.

    Worker processes find it by its name, so that each is a function of its own.
    """
    one = stage.takes_one
    if stages == 1:
        return _one_per_item if one else per_item
    if number == 0:
        return _reading_one if one else reading
    if number == stages - 1:
        return _writing_one if one else writing
    return None


def _one_per_item(handler: Callable[[Any], Any]) -> _Call:
    return per_item(one_by_one(handler))


def _reading_one(handler: Callable[[Any], Any]) -> _Call:
    return reading(one_by_one(handler))


def _writing_one(handler: Callable[[Any], Any]) -> _Call:
    return writing(one_by_one(handler))


def _steps(handler: _Call) -> Callable[..., _Call]:
    return with_awaited_steps if is_async(handler) else with_steps


def _encoded(result: object) -> bytes:
    try:
        return encode(result)
    except Exception as error:
        msg = f"a {type(result).__name__} can't be written as JSON: {error}"
        raise BatchFunctionError(msg) from error
