"""Messages of tensors: described in JSON, with their elements in it or behind it.

The binary tensor extension puts the elements after the JSON, one tensor after the other, and a
header says where the JSON ends.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, TypeAlias, TypeVar

import msgspec

from adaptive_batching.wire.exchange import Message
from adaptive_batching.wire.pieces import Pieces, cut, size_of
from adaptive_batching.wire.splice import (
    LARGE,
    NOT_STRICT_SIZE,
    NotCuttable,
    Raw,
    at_most,
    decoder_of,
    elements,
    length_of,
    listed,
    members,
    object_of,
    text_of,
)
from adaptive_batching.wire.tensors import Parameters, Tensor

JSON_LENGTH = "inference-header-content-length"
_BINARY_SIZE = "binary_data_size"
_LONGEST_LENGTH = 18  # digits
_MOST_TENSORS = 1024  # each takes more memory than its text, which alone is counted
_MOST_DIMENSIONS = 16  # more than models have
_MOST_SAID = 2**16  # bytes of the shapes and parameters of all tensors

_NONE = msgspec.Raw()  # left out of the text, which goes by identity
# The product of any number of sizes, each of any length, would take longer than anybody waits.
_Size: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Shape: TypeAlias = Annotated[list[_Size], msgspec.Meta(max_length=_MOST_DIMENSIONS)]
_T = TypeVar("_T")


class _Described(msgspec.Struct, forbid_unknown_fields=True):
    """A tensor as JSON says it."""

    name: str
    shape: msgspec.Raw
    datatype: str
    parameters: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    data: msgspec.Raw = _NONE


class _Written(msgspec.Struct, omit_defaults=True):
    """Return the tensor as it is written."""

    name: str
    shape: list[int]
    datatype: str
    parameters: Parameters | msgspec.UnsetType | None
    data: msgspec.Raw = _NONE


_described: msgspec.json.Decoder[list[_Described]] = msgspec.json.Decoder(list[_Described])
_shape: msgspec.json.Decoder[list[int]] = msgspec.json.Decoder(_Shape)
_parameters: msgspec.json.Decoder[Parameters | None] = msgspec.json.Decoder(Parameters | None)
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


def read_tensors(text: Raw, tail: Pieces, *, bounded: bool = False) -> list[Tensor]:
    """Read a list of tensors, with the bytes that stand behind the JSON.

    Args:
        text: Of the list.
        tail: The bytes.
        bounded: Whether a client wrote it.

    Raises:
        NotCuttable: It is not what the protocol says, or says too much.
    """
    tensors, in_bytes, sizes, left, said = [], [], [], size_of(tail), 0
    for each in _describe(text, bounded=bounded):
        given = each.parameters
        said += length_of(each.shape) + (0 if given is msgspec.UNSET else length_of(given))
        if said > _MOST_SAID:
            raise NotCuttable(f"expected at most {_MOST_SAID} bytes of shapes and parameters")
        shape = _read(_shape, each.shape)
        parameters = None if given is msgspec.UNSET else _read(_parameters, given)
        nothing = parameters if given is not msgspec.UNSET and not parameters else msgspec.UNSET
        parameters = parameters or {}
        data = bytes(each.data)
        size = parameters.pop(_BINARY_SIZE, None)
        tensor = Tensor(each.name, each.datatype, shape, parameters, data, nothing)
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
    described = []
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
        described.append(_Written(each.name, each.shape, each.datatype, said, text))
    return text_of(described), tuple(tail)


def _read(decoder: "msgspec.json.Decoder[_T]", text: Raw) -> _T:
    try:
        return decoder.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise NotCuttable(f"expected a tensor: {error}") from error


def _describe(text: Raw, *, bounded: bool) -> list[_Described]:
    few = length_of(text) <= LARGE // 4
    decoder = _described if few else decoder_of(at_most(_Described, _MOST_TENSORS))
    try:
        found = listed(decoder.decode(text))
    except (msgspec.DecodeError, RecursionError) as error:  # perhaps a NaN, as many servers write
        if bounded and length_of(text) > NOT_STRICT_SIZE:
            raise NotCuttable(f"expected tensors: {error}") from error
        parts = elements(text, bounded=bounded)
        _check_number(parts)
        return [_describe_leniently(members(part, bounded=bounded)) for part in parts]
    _check_number(found)
    return found


def _check_number(tensors: Sequence[object]) -> None:
    if len(tensors) > _MOST_TENSORS:
        raise NotCuttable(f"expected at most {_MOST_TENSORS} tensors, got {len(tensors)}")


def _describe_leniently(named: dict[str, msgspec.Raw]) -> _Described:
    data = named.pop("data", b"")
    try:
        (described,) = _described.decode(b"[" + object_of(named.items()) + b"]")
    except (msgspec.DecodeError, RecursionError) as error:
        raise NotCuttable(f"expected a tensor: {error}") from error
    described.data = msgspec.Raw(bytes(data))
    return described
