"""Forms (`multipart/form-data`, RFC 7578): each part is a field of an item.

A form names its boundary in its first line as well as in `Content-Type`, so that a worker can read
it without the headers. What parts may cost is bounded before any of them is made.
"""

import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints
from uuid import UUID

import msgspec

from adaptive_batching.errors import InvalidItem, MalformedBody
from adaptive_batching.payloads import pydantic_types
from adaptive_batching.payloads.annotations import UNDECLARED
from adaptive_batching.payloads.faults import of_msgspec
from adaptive_batching.payloads.kinds import is_pydantic
from adaptive_batching.wire import strict_json
from adaptive_batching.wire.plain import plain

MOST_PARTS = 128
_MOST_HEADERS = 8  # of a part; forms have three
_LONGEST_BOUNDARY = 70  # characters (RFC 2046, 5.1.1)
_BEGIN = re.compile(rb"--([^\r\n]{1,%d})\r\n" % _LONGEST_BOUNDARY)
_AS_TEXT = (str, date, time, timedelta, Decimal, UUID, Enum)
_BINARY = {"type": "string", "format": "binary"}


@dataclass(frozen=True, slots=True)
class _Field:
    """How the parts of a field are read.

    Attributes:
        form: `bytes` as they come, `str` as text, else JSON.
        repeats: Whether there may be several, which are a list.
    """

    form: Any
    repeats: bool = False


def form_reader(kind: Any, convert: Callable[[Any], Any]) -> Callable[[bytes], Any]:
    """Make what reads one form.

    It raises `MalformedBody` for what is no form, `InvalidItem` for a form that is not of the type.

    Args:
        kind: The type of the item: one with fields, or `UNDECLARED` for a dict of text and bytes.
        convert: Makes the item of a dict; raises msgspec's errors or `InvalidItem`.

    Raises:
        TypeError: The type has no fields.
        ModuleNotFoundError: The package that parses forms is missing.
    """
    check_parser()
    fields = _fields_of(kind)

    def read(body: bytes) -> Any:
        values: dict[str, Any] = {}
        for name, is_file, part in _parts(body):
            field = fields.get(name) or _Field(bytes if is_file else str)
            value = _value(name, field.form, part)
            if field.repeats:
                values.setdefault(name, []).append(value)
            elif name in values:
                raise InvalidItem(f"$.{name}", "expected one part of this name, got several")
            else:
                values[name] = value
        try:
            return convert(values)
        except msgspec.ValidationError as error:
            raise of_msgspec(error) from None

    return read


def form_writer(kind: Any) -> Callable[[Any], bytes]:
    """Make what writes one item as a form; None is no part.

    Raises:
        TypeError: The type has no fields.
    """
    _fields_of(kind)
    to_values = pydantic_types.values if is_pydantic(kind) else _to_builtins

    def write(item: Any) -> bytes:
        boundary = secrets.token_hex(16).encode()
        pieces = []
        for name, value in to_values(item).items():
            for each in _repeated(value):
                pieces += [b"--", boundary, b"\r\n", _head(name, each), b"\r\n\r\n"]
                pieces += [_written(each), b"\r\n"]
        return b"".join([*pieces, b"--", boundary, b"--\r\n"])

    return write


def form_schema(kind: Any) -> dict[str, Any]:
    """The schema of a form, as OpenAPI has it: files are binary, and text is text."""
    forms = {bytes: _BINARY, str: {"type": "string"}}
    properties: dict[str, Any] = {}
    for name, field in _fields_of(kind).items():
        schema: dict[str, Any] = forms.get(field.form, {})
        properties[name] = {"type": "array", "items": schema} if field.repeats else schema
    return {"type": "object", "properties": properties}


def check_parser() -> None:
    """See to it that forms can be parsed.

    Raises:
        ModuleNotFoundError: The package that does it is missing.
    """
    try:
        from multipart import PushMultipartParser  # noqa: F401, PLC0415  an extra
    except ImportError as error:  # `python-multipart` has a module of that name, which lacks it
        msg = "the codec multipart needs the package multipart: pip install multipart"
        raise ModuleNotFoundError(msg, name="multipart") from error


def _parts(body: bytes) -> list[tuple[str, bool, bytes]]:
    """The name of each part, whether it is a file, and what it holds."""
    from multipart import (  # noqa: PLC0415
        MultipartError,
        MultipartSegment,
        ParserLimitReached,
        PushMultipartParser,
    )

    begin = _BEGIN.match(body)
    if begin is None:
        raise MalformedBody("expected a form that begins with its boundary")
    parser = PushMultipartParser(
        begin[1], max_header_count=_MOST_HEADERS, max_segment_count=MOST_PARTS, strict=True
    )
    parts: list[tuple[str, bool, bytes]] = []
    held: list[bytes] = []
    try:
        with parser:
            for event in parser.parse(body):
                if isinstance(event, MultipartSegment):
                    head, held = event, []
                elif event is None:
                    is_file = head.filename is not None
                    parts.append((head.name, is_file, b"".join(held)))
                else:
                    held.append(event)
    except ParserLimitReached as error:
        most = f"at most {MOST_PARTS} parts, with {_MOST_HEADERS} headers each"
        raise MalformedBody(f"expected a form of {most}: {error.args[0]}") from None
    except MultipartError as error:
        raise MalformedBody(f"the form can't be read: {error.args[0]}") from None
    return parts


def _value(name: str, form: Any, part: bytes) -> Any:
    if form is bytes:
        return part
    try:
        return part.decode() if form is str else strict_json.decode(part)
    except UnicodeDecodeError as error:
        fault = f"expected UTF-8, got another byte at {error.start}"
    except MalformedBody as error:
        fault = f"expected JSON: {error}"
    raise InvalidItem(f"$.{name}", fault)


def _fields_of(kind: Any) -> Mapping[str, _Field]:
    """How each field of a type is read; of none that is unknown to it."""
    if kind is UNDECLARED:
        return {}
    if not isinstance(kind, type) or not getattr(kind, "__annotations__", None):
        msg = "expected a type with fields, such as a msgspec.Struct, for the codec multipart"
        raise TypeError(f"{msg}, got {kind}")
    hints, renamed = get_type_hints(kind, include_extras=True), _renamed(kind)
    return {renamed.get(name, name): _field_of(hint) for name, hint in hints.items()}


def _renamed(kind: type) -> Mapping[str, str]:
    """What fields are called in bodies, by their names in Python."""
    if issubclass(kind, msgspec.Struct):
        return {each.name: each.encode_name for each in msgspec.structs.fields(kind)}
    return pydantic_types.aliases(kind)


def _field_of(hint: Any) -> _Field:
    if get_origin(hint) is Annotated:
        return _field_of(get_args(hint)[0])
    if get_origin(hint) is list:
        (inner,) = get_args(hint)
        form = _field_of(inner).form
        return _Field(form, repeats=True) if form in {bytes, str} else _Field(None)
    members = get_args(hint) if get_origin(hint) in {Union, UnionType} else (hint,)
    if any(map(_is_text, members)):
        return _Field(str)
    return _Field(bytes if bytes in members else None)


def _is_text(hint: Any) -> bool:
    if get_origin(hint) is Literal:
        return any(isinstance(each, str) for each in get_args(hint))
    return hint is Any or (isinstance(hint, type) and issubclass(hint, _AS_TEXT))


def _to_builtins(item: Any) -> Any:
    return msgspec.to_builtins(item, builtin_types=(bytes,), enc_hook=plain)


def _repeated(value: Any) -> list[Any]:
    if value is None:
        return []
    if isinstance(value, list) and value and all(isinstance(each, bytes | str) for each in value):
        return value
    return [value]


def _head(name: str, value: Any) -> bytes:
    if not name.isprintable() or '"' in name:
        raise ValueError(f"expected a name that a form's part can have, got {name!r}")
    file = f'; filename="{name}"' if isinstance(value, bytes) else ""
    return f'Content-Disposition: form-data; name="{name}"{file}'.encode()


def _written(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else strict_json.encode(value)
