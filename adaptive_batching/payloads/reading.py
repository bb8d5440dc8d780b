"""From a body to an item of the declared type."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, get_args, get_origin

import msgspec

from adaptive_batching.errors import InvalidItem, MalformedBody
from adaptive_batching.payloads import pydantic_types
from adaptive_batching.payloads.annotations import UNDECLARED
from adaptive_batching.payloads.codecs import Codec
from adaptive_batching.payloads.faults import in_field, of_msgspec
from adaptive_batching.payloads.forms import form_reader
from adaptive_batching.payloads.kinds import array_type, is_pydantic
from adaptive_batching.wire import strict_json

if TYPE_CHECKING:
    from adaptive_batching.payloads.arrays.array_type import ArrayType
    from adaptive_batching.payloads.arrays.fields import ArrayFields

Read = Callable[[bytes], Any]

_MALFORMED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def make_reader(codec: Codec, kind: Any) -> Read:
    """Make what reads one body.

    It raises `MalformedBody` for what the codec can't read, `InvalidItem` for what is not of the
    type, and whatever a method of the type raises.

    Args:
        codec: How it is written.
        kind: Its type, or `UNDECLARED`.

    Raises:
        TypeError: The codec can't hold values of that type.
    """
    array = array_type(kind)
    if codec is Codec.NPY:
        return _npy_reader(array, kind)
    if codec is Codec.JSON and kind is UNDECLARED:
        return strict_json.decode
    if codec is Codec.JSON or codec is Codec.MSGPACK:
        if array is not None:
            return _array_reader(codec, array)
        if is_pydantic(kind):
            return _pydantic_reader(codec, kind)
        return _checked(codec, kind)
    return _raw_reader(kind) if codec is Codec.RAW else form_reader(kind, _from_values(kind))


def _from_values(kind: Any) -> Callable[[Any], Any]:
    """Make an item of a dict of its fields."""
    if is_pydantic(kind):
        return pydantic_types.validator(kind, json=False)
    return lambda values: msgspec.convert(values, kind, dec_hook=array_field)


def _decode(codec: Codec, kind: Any) -> Read:
    if codec is Codec.JSON:
        return msgspec.json.Decoder(kind, dec_hook=array_field).decode
    return msgspec.msgpack.Decoder(kind, dec_hook=array_field, ext_hook=_no_extension).decode


def _no_extension(code: int, _data: memoryview) -> Any:
    """What another program means by an extension, no handler could know, nor JSON write."""
    raise MalformedBody(f"expected MessagePack without extensions of its own, got code {code}")


def _checked(codec: Codec, kind: Any) -> Read:
    decode, decode_any = _decode(codec, kind), _decode(codec, Any)
    skim = _decode(codec, msgspec.Raw)

    def read(body: bytes) -> Any:
        try:
            try:
                return decode(body)
            except msgspec.ValidationError as error:
                fault = of_msgspec(error)
                skim(body)  # what is broken behind the fault is no item at all
        except _MALFORMED as error:
            raise MalformedBody(str(error)) from None
        if get_origin(kind) is dict and fault.path.startswith("$[...]"):
            fault = _fault_by_name(decode_any, body, get_args(kind)[1]) or fault
        raise fault

    return read


def _fault_by_name(decode: Read, body: bytes, kind: Any) -> InvalidItem | None:
    """What is wrong with the first value of a dict that is not of a type.

    msgspec does not say under which name it is; None if the rest of the body can't be read.
    """
    try:
        values = decode(body)
    except _MALFORMED:
        return None
    for name, value in values.items():
        try:
            msgspec.convert(value, kind, dec_hook=array_field)
        except msgspec.ValidationError as error:
            return in_field(name, of_msgspec(error))
    return None


def _array_reader(codec: Codec, array: "ArrayType | ArrayFields") -> Read:
    read_lists = _checked(codec, array.read_as)
    return lambda body: array.from_lists(read_lists(body))


def _pydantic_reader(codec: Codec, kind: Any) -> Read:
    if codec is Codec.JSON:
        validate = pydantic_types.validator(kind, json=True)

        def read(body: bytes) -> Any:
            strict_json.decode(body)  # pydantic's own would take NaN and 1e999
            return validate(body)

        return read
    unpack, validate_values = (
        _checked(codec, Any),
        pydantic_types.validator(kind, json=False),
    )
    return lambda body: validate_values(unpack(body))


def _npy_reader(array: "ArrayType | ArrayFields | None", kind: Any) -> Read:
    from adaptive_batching.payloads.arrays import npy  # noqa: PLC0415  it imports NumPy

    if kind is UNDECLARED:
        return npy.load
    if array is None or not array.is_one_array:
        raise TypeError(f"expected an array for the codec npy, got {kind}")
    return lambda body: array.from_item(npy.load(body))


def _raw_reader(kind: Any) -> Read:
    if kind is str:
        return _text
    if kind not in {bytes, UNDECLARED}:
        raise TypeError(f"expected bytes or str for the codec raw, got {kind}")
    return _as_it_is


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise InvalidItem("$", f"expected UTF-8, got another byte at {error.start}") from None


def _as_it_is(body: bytes) -> bytes:
    return body


def array_field(kind: Any, lists: Any) -> Any:
    """Make the array that is part of something larger; a `dec_hook` of msgspec.

    Raises:
        ValueError: It is not as declared.
        NotImplementedError: It is to be no array.
    """
    array = array_type(kind)
    if array is None:
        # What msgspec asks of its hooks for a type that they don't know.
        raise NotImplementedError(f"a {kind} has no form in a body")
    try:
        return array.from_lists(msgspec.convert(lists, array.read_as))
    except InvalidItem as error:
        raise ValueError(error.fault) from None
    except msgspec.ValidationError as error:  # msgspec would not add where the field is
        raise ValueError(str(error)) from None
