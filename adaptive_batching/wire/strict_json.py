"""JSON with nothing beyond the standard: one body is one item, read and written in the worker."""

import inspect
from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any

import msgspec

from adaptive_batching.errors import BatchFunctionError, BatchingError


class MalformedJSON(BatchingError, ValueError):
    """What was sent is not JSON, or more than any number or nesting may be."""

    status = 400
    code = "malformed"


def decode(body: bytes) -> Any:
    """Read one JSON value.

    Raises:
        MalformedJSON: NaN, Infinity, out-of-range numbers, bad UTF-8, too deep, or not JSON at all.
    """
    try:
        return _decoder.decode(body)
    except (ValueError, RecursionError) as error:
        raise MalformedJSON(f"{type(error).__name__}: {error}") from None


def encode(value: object) -> bytes:
    """Write one JSON value; NumPy scalars and arrays are welcome, also inside.

    Raises:
        ValueError: It contains NaN, an infinity, or a string that is not Unicode.
        TypeError: It contains something that JSON has no form for.
    """
    try:
        encoded = _encoder.encode(value)
        # msgspec writes NaN as null: what has no null in it needs no second look.
        suspicious = b"null" in encoded and not _is_finite(value)
    except RecursionError:
        raise ValueError("nested too deep, or it contains itself") from None
    if suspicious:
        raise ValueError("NaN and infinities have no form in JSON")
    return encoded


def per_item(handler: Callable[[list[Any]], Any]) -> Callable[[list[bytes]], Any]:
    """Turn a handler of a list of Python values into one of a list of JSON bodies.

    A body that can't be read never reaches the handler, and a result that can't be written harms
    nobody else: an error stands in its place. The handler is not called with an empty list.
    """
    if _is_async(handler):

        async def answer_later(bodies: list[bytes]) -> Any:
            items, good = _read(bodies)
            return _write(items, len(good), await handler(good) if good else [])

        return answer_later

    def answer(bodies: list[bytes]) -> Any:
        items, good = _read(bodies)
        return _write(items, len(good), handler(good) if good else [])

    return answer


def _read(bodies: list[bytes]) -> tuple[list[Any], list[Any]]:
    """Every item or the error in its place, and the good ones alone."""
    items = [_decoded(body) for body in bodies]
    return items, [item for item in items if not isinstance(item, MalformedJSON)]


def _write(items: list[Any], expected: int, results: Sequence[Any]) -> Any:
    """Every result as JSON in the place of its item."""
    if not hasattr(results, "__len__") or isinstance(results, (str, bytes, dict)):
        found = type(results).__name__
        raise BatchFunctionError(f"expected a list of {expected} results, got {found}")
    if len(results) != expected:
        raise BatchFunctionError(f"returned {len(results)} results for a batch of {expected}")
    answers = map(_encoded, results)
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


def _plain(value: Any) -> Any:
    """What NumPy, and whatever does likewise, offers in place of its own types."""
    if hasattr(value, "tolist"):
        plain = value.tolist()
        if type(plain) is not type(value):
            return plain
    raise TypeError(f"JSON has no form for {type(value).__name__}")


def _is_finite(value: object) -> bool:
    waiting = [msgspec.to_builtins(value, enc_hook=_plain)]
    while waiting:
        part = waiting.pop()
        if isinstance(part, float):
            if not isfinite(part):
                return False
        elif isinstance(part, dict):
            waiting.extend(part.values())
        elif isinstance(part, (list, tuple)):
            waiting.extend(part)
    return True


def _is_async(handler: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(
        getattr(handler, "__call__", None)  # noqa: B004  the method itself is wanted
    )


_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder(enc_hook=_plain)
