"""Between the JSON bodies that the marshal passes on unread and the values that a handler wants.

It runs where the handler runs, in a worker process as a rule, so that the process that answers all
connections never reads or writes JSON.
"""

from collections.abc import Callable
from typing import Any

from adaptive_batching.errors import BatchFunctionError
from adaptive_batching.wire.strict_json import decode, encode
from adaptive_batching.workers.handler import is_async
from adaptive_batching.workers.items import with_awaited_steps, with_steps


def per_item(handler: Callable[[list[Any]], Any]) -> Callable[[list[bytes]], Any]:
    """Turn a handler of a list of Python values into one of a list of JSON bodies.

    A body that can't be read never reaches the handler, and a result that can't be written harms
    nobody else: an error stands in its place. The handler is not called with an empty list.
    """
    wrap = with_awaited_steps if is_async(handler) else with_steps
    return wrap(handler, decode, _encoded)


def _encoded(result: object) -> bytes:
    try:
        return encode(result)
    except Exception as error:
        msg = f"a {type(result).__name__} can't be written as JSON: {error}"
        raise BatchFunctionError(msg) from error
