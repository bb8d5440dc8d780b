"""From a result to a body, which is looked at as its client will: is it what was declared?"""

import reprlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from adaptive_batching.errors import BatchFunctionError, InvalidItem
from adaptive_batching.exception_text import message_of, qualname_of
from adaptive_batching.payloads import pydantic_types
from adaptive_batching.payloads.annotations import UNDECLARED
from adaptive_batching.payloads.codecs import Codec
from adaptive_batching.payloads.forms import form_writer
from adaptive_batching.payloads.kinds import array_type, is_pydantic
from adaptive_batching.payloads.reading import make_reader
from adaptive_batching.wire import strict_json
from adaptive_batching.wire.plain import plain

if TYPE_CHECKING:
    from adaptive_batching.payloads.arrays.array_type import ArrayType
    from adaptive_batching.payloads.arrays.fields import ArrayFields

Write = Callable[[Any], bytes]

_to_msgpack = msgspec.msgpack.Encoder(enc_hook=plain)


def make_writer(codec: Codec, kind: Any, handler: str) -> Write:
    """Make what writes one result.

    It raises `BatchFunctionError`, which names the handler, for a result that is not of the type or
    has no form in the codec.

    Args:
        codec: How it is to be written.
        kind: Its type, or `UNDECLARED`.
        handler: Whose result it is.

    Raises:
        TypeError: The codec can't hold values of that type.
    """
    convert = make_converter(codec, kind)

    def write(result: Any) -> bytes:
        try:
            return convert(result)
        except InvalidItem as error:
            fault = f"{error}, in {reprlib.repr(result)}"
            msg = f"{handler} returned what is not of its type {_name(kind)}: {fault}"
            raise BatchFunctionError(msg) from error
        except Exception as error:
            what = f"{qualname_of(type(result))}, which can't be written as {codec.value}"
            raise BatchFunctionError(f"{handler} returned {what}: {message_of(error)}") from error

    return write


def make_item_writer(codec: Codec, kind: Any) -> Write:
    """Make what writes one item, which will be validated as it is read.

    It raises `InvalidItem` for an item that has no form in the codec.

    Raises:
        TypeError: The codec can't hold values of that type.
    """
    encode = _make_encoder(codec, kind)

    def write(item: Any) -> bytes:
        try:
            return encode(item)
        except InvalidItem:
            raise
        except Exception as error:
            fault = f"{qualname_of(type(item))}, which can't be written as {codec.value}"
            raise InvalidItem("$", f"got {fault}: {message_of(error)}") from error

    return write


def make_converter(codec: Codec, kind: Any) -> Write:
    """Make what writes one value, and raises `InvalidItem` if it is not of the type.

    What has no form in the codec makes it raise whatever the codec does.

    Raises:
        TypeError: The codec can't hold values of that type.
    """
    encode = _make_encoder(codec, kind)
    is_read_back = codec in {Codec.JSON, Codec.MSGPACK, Codec.MULTIPART} and kind is not UNDECLARED
    if not is_read_back or array_type(kind) is not None:  # what writes an array checks it
        return encode
    return _read_back(encode, make_reader(codec, kind))


def _make_encoder(codec: Codec, kind: Any) -> Write:
    """Make what writes one value, which may be of another type where the codec can hold it."""
    array = array_type(kind)
    if codec is Codec.NPY:
        if kind is not UNDECLARED and (array is None or not array.is_one_array):
            raise TypeError(f"expected an array for the codec npy, got {_name(kind)}")
        return _npy_writer(array)
    if codec is Codec.JSON or codec is Codec.MSGPACK:
        encode = strict_json.encode if codec is Codec.JSON else _to_msgpack.encode
        if kind is UNDECLARED:
            return encode
        if array is not None:
            return lambda result: encode(array.from_result(result))
        return _encode(encode, kind)
    if codec is Codec.MULTIPART:
        return form_writer(kind)
    if kind not in {bytes, str, UNDECLARED}:
        raise TypeError(f"expected bytes or str for the codec raw, got {_name(kind)}")
    return _raw(kind)


def _encode(encode: Write, kind: Any) -> Write:
    if not is_pydantic(kind):
        return encode
    plain_values = pydantic_types.plain_values(kind)
    return lambda result: encode(plain_values(result))


def _read_back(encode: Write, read: Callable[[bytes], Any]) -> Write:
    def convert(result: Any) -> bytes:
        body = encode(result)
        read(body)
        return body

    return convert


def _npy_writer(array: "ArrayType | ArrayFields | None") -> Write:
    from adaptive_batching.payloads.arrays import npy  # noqa: PLC0415  it imports NumPy

    if array is None:
        return npy.dump
    return lambda result: npy.dump(array.from_result(result))


def _raw(kind: Any) -> Write:
    text: list[type] = [] if kind is bytes else [str]
    expected = (*text, *([] if kind is str else [bytes, bytearray, memoryview]))

    def convert(result: Any) -> bytes:
        if not isinstance(result, expected):
            wanted = " or ".join(each.__name__ for each in expected)
            raise InvalidItem("$", f"expected {wanted}, got {qualname_of(type(result))}")
        return result.encode() if isinstance(result, str) else bytes(result)  # type: ignore[call-overload]

    return convert


def _name(kind: Any) -> str:
    return str(kind.__qualname__) if isinstance(kind, type) else str(kind)
