"""Between the JSON bodies that the marshal passes on unread and the values that a handler wants.

It runs where the handler runs, in a worker process as a rule, so that the process that answers all
connections never reads or writes JSON.
"""

from collections.abc import Callable
from typing import Any

from adaptive_batching.errors import BatchFunctionError, MalformedJSON
from adaptive_batching.wire.strict_json import decode, encode
from adaptive_batching.workers.handler import is_async
from adaptive_batching.workers.results import check_results


def per_item(handler: Callable[[list[Any]], Any]) -> Callable[[list[bytes]], Any]:
    """Turn a handler of a list of Python values into one of a list of JSON bodies.

    A body that can't be read never reaches the handler, and a result that can't be written harms
    nobody else: an error stands in its place. The handler is not called with an empty list.
    """
    if is_async(handler):

        async def answer_later(bodies: list[bytes]) -> list[Any]:
            items, good = _read(bodies)
            return _write(items, len(good), await handler(good) if good else [])

        return answer_later

    def answer(bodies: list[bytes]) -> list[Any]:
        items, good = _read(bodies)
        return _write(items, len(good), handler(good) if good else [])

    return answer


def _read(bodies: list[bytes]) -> tuple[list[Any], list[Any]]:
    """Every item or the error in its place, and the good ones alone."""
    items = [_decoded(body) for body in bodies]
    return items, [item for item in items if not isinstance(item, MalformedJSON)]


def _write(items: list[Any], good: int, results: object) -> list[Any]:
    """Every result as JSON in the place of its item."""
    answers = map(_encoded, check_results(results, good))
    return [item if isinstance(item, MalformedJSON) else next(answers) for item in items]


def _decoded(body: bytes) -> Any:
    try:
        return decode(body)
    except MalformedJSON as error:
        return error.with_traceback(None)


def _encoded(result: object) -> bytes | BaseException:
    if isinstance(result, BaseException):
        return result
    try:
        return encode(result)
    except Exception as error:  # noqa: BLE001  a result's own methods may raise anything
        return BatchFunctionError(f"a {type(result).__name__} can't be written as JSON: {error}")
