"""Whether two answers say the same, but for what arithmetic in another order may change."""

import base64
import json
import struct
from math import isclose, isnan
from typing import Any

import msgspec

from adaptive_batching.units import is_number
from adaptive_batching.wire.exchange import Message
from adaptive_batching.wire.pieces import whole
from adaptive_batching.wire.tensor_messages import open_message

_OF_THE_ANSWER = frozenset({"id", "created", "usage", "model_version"})  # not of what was asked
_NEAR_ZERO = 0.01  # of the tolerance: what may differ absolutely
_FLOATS = {"FP16": "e", "FP32": "f", "FP64": "d"}  # as `struct` calls them


def same(one: Message, other: Message, tolerance: float) -> bool:
    """Whether two answers to one request say the same.

    Numbers may differ by a share of the larger one, or by a hundredth of that absolutely, as may
    tensors and embeddings in bytes; all else must be equal, but for names of the answer itself.

    Args:
        one: An answer.
        other: Another answer.
        tolerance: The share.
    """
    first, second = _value(one), _value(other)
    if isinstance(first, dict) and isinstance(second, dict):
        for each in (first, second):
            for name in _OF_THE_ANSWER:
                each.pop(name, None)
    try:
        return _same(first, second, tolerance)
    except RecursionError:  # nested too deep for us
        return one.body == other.body


def _same(one: Any, other: Any, tolerance: float) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            _same(value, other[name], tolerance) for name, value in one.items()
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(
            _same(*pair, tolerance) for pair in zip(one, other, strict=True)
        )
    if is_number(one) and is_number(other):
        return _close(one, other, tolerance)
    if isinstance(one, str) and isinstance(other, str) and one != other:
        floats = _floats_of(one), _floats_of(other)
        return None not in floats and _same(*floats, tolerance)
    return type(one) is type(other) and bool(one == other)


def _close(one: float, other: float, tolerance: float) -> bool:
    if isinstance(one, int) and isinstance(other, int):
        return one == other  # classes and token ids, not measurements
    try:
        if isnan(one) or isnan(other):
            return isnan(one) and isnan(other)
        return isclose(one, other, rel_tol=tolerance, abs_tol=tolerance * _NEAR_ZERO)
    except OverflowError:  # an integer that is beyond all floats
        return False


def _value(message: Message) -> Any:
    """What an answer says, as Python values; its bytes if it is nothing that we know."""
    try:
        if "msgpack" in message.headers.get("content-type", ""):
            return msgspec.msgpack.decode(message.body)
        text, tail = open_message(message)
        value = json.loads(text)  # as servers write it, with NaN
        return _with_tensors(value, whole(tail)) if tail else value
    except Exception:  # noqa: BLE001  what was answered to one alone has not been looked at
        return message.body


def _with_tensors(value: Any, tail: memoryview) -> Any:
    """The elements that stand behind the text, put where the others are."""
    for output in value["outputs"] if isinstance(value, dict) else ():
        size = output.get("parameters", {}).pop("binary_data_size", None)
        if size is not None:
            output["data"] = _elements(bytes(tail[:size]), output.get("datatype"))
            tail = tail[size:]
    return value


def _elements(data: bytes, datatype: str) -> object:
    kind = _FLOATS.get(datatype)
    return data if kind is None else [number for (number,) in struct.iter_unpack(f"<{kind}", data)]


def _floats_of(text: str) -> list[float] | None:
    """An embedding in base64, as OpenAI's API has it; None if it is something else."""
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:  # not in ASCII, or not in base64
        return None
    return [number for (number,) in struct.iter_unpack("<f", data)] if len(data) % 4 == 0 else None
