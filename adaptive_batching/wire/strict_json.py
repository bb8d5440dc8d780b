"""JSON with nothing beyond the standard, neither read nor written."""

from math import isfinite
from typing import Any

import msgspec

from adaptive_batching.errors import MalformedBody
from adaptive_batching.wire.plain import plain


def decode(body: bytes) -> Any:
    """Read one JSON value.

    Raises:
        MalformedBody: NaN, Infinity, out-of-range numbers, bad UTF-8, too deep, or not JSON at all.
    """
    try:
        return _decoder.decode(body)
    except (ValueError, RecursionError) as error:
        raise MalformedBody(str(error)) from None


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


def _is_finite(value: object) -> bool:
    waiting = [msgspec.to_builtins(value, enc_hook=plain)]
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


_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder(enc_hook=plain)
