"""Messages of tensors: described in JSON, with their elements in it or behind it.

The binary tensor extension puts the elements after the JSON, one tensor after the other, and a
header says where the JSON ends.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, TypeAlias

import msgspec

from adaptive_batching.wire.exchange import Message
from adaptive_batching.wire.pieces import Pieces, cut, size_of
from adaptive_batching.wire.splice import NotCuttable, Raw, elements, members, object_of, text_of
from adaptive_batching.wire.tensors import Parameters, Tensor

JSON_LENGTH = "inference-header-content-length"
_BINARY_SIZE = "binary_data_size"
_LONGEST_LENGTH = 18  # digits
_MOST_TENSORS = 1024  # each takes more memory than its text, which alone is counted
_MOST_DIMENSIONS = 16  # more than models have: each one more is another look at all elements

_NONE = msgspec.Raw()  # left out of the text, which goes by identity
# The product of any number of sizes, each of any length, would take longer than anybody waits.
_Size: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Shape: TypeAlias = Annotated[list[_Size], msgspec.Meta(max_length=_MOST_DIMENSIONS)]


class _Described(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A tensor as JSON says it."""

    name: str
    shape: _Shape
    datatype: str
    parameters: Parameters | msgspec.UnsetType | None = msgspec.UNSET
    data: msgspec.Raw = _NONE


_described: msgspec.json.Decoder[list[_Described]] = msgspec.json.Decoder(
    Annotated[list[_Described], msgspec.Meta(max_length=_MOST_TENSORS)]
)
_length = msgspec.json.Decoder(int)


def open_message(message: Message) -> tuple[bytes, Pieces]:
    """Tell the JSON of a message from the bytes behind it.

    Raises:
        NotCuttable: The header that says where it ends is wrong.
    """
    length = message.headers.get(JSON_LENGTH)
    if length is None:
        return b"".join(message.pieces) if message.tail else message.body, ()
    number = length.isascii() and length.isdigit() and len(length) <= _LONGEST_LENGTH
    if not number or int(length) > message.size:
        raise NotCuttable(f"expected the length of the JSON in {JSON_LENGTH}, got {length!r}")
    end = int(length)
    text, tail = cut(message.pieces, [end, message.size - end])
    return b"".join(text), tail


def merged_message(text: bytes, tail: Pieces, headers: Mapping[str, str]) -> Message:
    """A request with the bytes of many behind the JSON; `headers` are those of one of them."""
    if not tail:
        return Message(text, _without_length(headers))
    return Message(text, {**headers, JSON_LENGTH: str(len(text))}, tail=tail)


def close_message(text: bytes, tail: Pieces, headers: Mapping[str, str]) -> Message:
    """Put the bytes behind the JSON, and say so if there are any."""
    if not tail:
        return Message(text, _without_length(headers))
    return Message(b"".join([text, *tail]), {**headers, JSON_LENGTH: str(len(text))})


def read_tensors(text: Raw, tail: Pieces) -> list[Tensor]:
    """Read a list of tensors, with the bytes that stand behind the JSON.

    Raises:
        NotCuttable: It is not what the protocol says.
    """
    tensors, in_bytes, sizes, left = [], [], [], size_of(tail)
    for each in _describe(text):
        parameters = each.parameters or {}
        nothing = msgspec.UNSET if parameters else each.parameters
        data = bytes(each.data)
        size = parameters.pop(_BINARY_SIZE, None)
        tensor = Tensor(each.name, each.datatype, each.shape, parameters, data, nothing)
        tensors.append(tensor)
        if size is not None:
            length = _read_length(size, left)
            if data:
                raise NotCuttable(f"expected {each.name!r} in JSON or behind it, got both")
            in_bytes.append(tensor)
            sizes.append(length)
            left -= length
    if left:
        raise NotCuttable(f"expected the bytes of the tensors, got {left} more")
    # At once: a look at all pieces for each of a thousand tensors would take as long as a batch.
    for tensor, pieces in zip(in_bytes, cut(tail, sizes), strict=True):
        tensor.data = pieces
    return tensors


def _without_length(headers: Mapping[str, str]) -> Mapping[str, str]:
    return {name: headers[name] for name in headers if name != JSON_LENGTH}


def _read_length(text: Raw, limit: int) -> int:
    try:
        length = _length.decode(text)
    except msgspec.DecodeError as error:
        raise NotCuttable(f"expected a number of bytes: {error}") from error
    if not 0 <= length <= limit:
        raise NotCuttable(f"expected {length} bytes behind the JSON, got {limit}")
    return length


def write_tensors(tensors: Sequence[Tensor]) -> tuple[bytes, Pieces]:
    """Return the list in JSON, and what is to stand behind it."""
    described: list[_Described] = []
    tail: list[memoryview] = []
    for each in tensors:
        parameters, text = each.parameters, _NONE
        if isinstance(each.data, bytes):
            text = msgspec.Raw(each.data)
        else:
            tail += each.data
            size = msgspec.Raw(text_of(size_of(each.data)))
            parameters = {**parameters, _BINARY_SIZE: size}
        said = parameters or each.nothing
        described.append(_Described(each.name, each.shape, each.datatype, said, text))
    return text_of(described), tuple(tail)


def _describe(text: Raw) -> list[_Described]:
    try:
        return _described.decode(text)
    except (msgspec.DecodeError, RecursionError):  # perhaps a NaN, which many servers write
        parts = elements(text)
        if len(parts) > _MOST_TENSORS:
            raise NotCuttable(
                f"expected at most {_MOST_TENSORS} tensors, got {len(parts)}"
            ) from None
        return [_describe_leniently(members(part)) for part in parts]


def _describe_leniently(named: dict[str, msgspec.Raw]) -> _Described:
    data = named.pop("data", b"")
    try:
        (described,) = _described.decode(b"[" + object_of(named.items()) + b"]")
    except (msgspec.DecodeError, RecursionError) as error:
        raise NotCuttable(f"expected a tensor: {error}") from error
    described.data = msgspec.Raw(bytes(data))
    return described
