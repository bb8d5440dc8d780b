"""A value is cut out of a large body in one reading of it, for each takes up to 20 ms.

What is left is small, and read as every small body is.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec
import numpy as np

from adaptive_batching.wire.splice import NotCuttable

DecoderType: TypeAlias = Callable[[Any], "msgspec.json.Decoder[Any] | msgspec.msgpack.Decoder[Any]"]
_MOST_BESIDE = 2**21  # bytes: they go with each piece of a request


def cut_out(
    body: bytes, pointer: tuple[str, ...], nothing: bytes, decoder: DecoderType
) -> tuple[msgspec.Raw, bytes]:
    """Return a value, and the body with another in its place.

    Args:
        body: An object, or a map.
        pointer: The names on the way to the value; at least one.
        nothing: The other value.
        decoder: Of the notation.

    Raises:
        NotCuttable: It has no such value, or too much beside it.
    """
    try:
        value = _decoder_at(pointer, decoder).decode(body)
        for _ in pointer:
            value = value.inner
    except (
        ValueError,
        RecursionError,
    ) as error:  # of the body, or of a name that no field can have
        raise NotCuttable(f"expected a list: {error}") from error
    begin, length = _address(value) - _address(body), len(memoryview(value))
    if begin < 0 or not body.startswith(bytes(value), begin):  # as long as msgspec has views
        raise NotCuttable("expected a value that is a part of its body")
    if len(body) - length > _MOST_BESIDE:
        raise NotCuttable(f"expected at most {_MOST_BESIDE} bytes beside a list")
    return value, body[:begin] + nothing + body[begin + length :]


@lru_cache(64)
def _decoder_at(pointer: tuple[str, ...], decoder: DecoderType) -> Any:
    kind: Any = msgspec.Raw
    for name in reversed(pointer):
        kind = msgspec.defstruct("Around", [("inner", kind)], rename={"inner": name})
    return decoder(kind)


def _address(text: bytes | msgspec.Raw) -> int:
    address: int = np.frombuffer(text, np.uint8).__array_interface__["data"][0]
    return address
