"""Requests that are made to cost time and memory: for each protocol what its parser likes least."""

from collections.abc import Callable, Iterator
from functools import partial
from struct import pack
from typing import Any, NamedTuple

from adaptive_batching.wire.exchange import Format, Message, Request
from adaptive_batching.wire.formats import make_format

_PREDICT, _INFER = "/v1/models/m:predict", "/v2/models/m/infer"
_EMBEDDINGS = "/v1/embeddings"
_JSON_LENGTH = "inference-header-content-length"
_DIMENSIONS = 16


class Hostile(NamedTuple):
    """A request, and what is hostile in it.

    Attributes:
        name: The protocol, and what it is.
        form: Of the protocol.
        path: Where it goes.
        make: Makes a body of nearly so many bytes, and the headers that it needs.
    """

    name: str
    form: Format[Any]
    path: str
    make: Callable[[int], tuple[bytes, dict[str, str]]]

    def request(self, size: int) -> Request:
        """Make it, of nearly so many bytes."""
        body, headers = self.make(size)
        content_type = {"content-type": "application/json"}
        return Request("POST", self.path, Message(body, {**content_type, **headers}))


def hostile() -> Iterator[Hostile]:
    """All of them."""
    rows = partial(_all, _ARRAYS | _OBJECTS)
    yield from rows("tensorflow", _PREDICT, b'{"instances":%b}')
    yield from rows("json", "/", b'{"a":{"b":%b}}', items="/a/b")
    yield from rows("json", "/", b"%b")
    yield from rows("torchserve", "/predictions/m", b'{"instances":%b}')
    yield from rows("tensorflow-columns", _PREDICT, b'{"inputs":%b}')
    yield from rows("tensorflow-columns", _PREDICT, b'{"inputs":{"a":%b}}')
    yield from rows("openai-embeddings", _EMBEDDINGS, b'{"model":"m","input":%b}')
    yield from rows("tei", "/embed", b'{"inputs":%b}')
    yield from rows("tei", "/predict", b'{"inputs":%b}')
    for protocol, path in (
        ("tensorflow", _PREDICT), ("tensorflow-columns", _PREDICT), ("open-inference", _INFER),
        ("openai-embeddings", _EMBEDDINGS), ("tei", "/embed"),
    ):  # fmt: skip
        yield from _all(_WHOLE, protocol, path, b"%b")
    columns = make_format("tensorflow-columns")
    yield Hostile("tensorflow-columns: 1024 columns", columns, _PREDICT, _columns)
    yield from _tensors()
    yield from _packed_rows()


def _all(
    kinds: dict[str, Callable[[int], bytes]], protocol: str, path: str, frame: bytes, **options: str
) -> Iterator[Hostile]:
    form = make_format(protocol, **options)
    for name, array in kinds.items():
        called = f"{protocol} {(frame % b'..').decode()}: {name}"
        yield Hostile(called, form, path, partial(_plain, frame, array))


def _plain(frame: bytes, make: Callable[[int], bytes], size: int) -> tuple[bytes, dict[str, str]]:
    return frame % make(size - len(frame)), {}


def _array(unit: bytes, last: bytes = b"0", opening: bytes = b"[", closing: bytes = b"]") -> Any:
    """Writes so many of a unit, each with a comma after it, and what comes last."""

    def write(size: int) -> bytes:
        left = size - len(opening) - len(closing) - len(last)
        return opening + (unit + b",") * (left // (len(unit) + 1)) + last + closing

    return write


def _string(unit: bytes) -> Any:
    def write(size: int) -> bytes:
        return b'["' + unit * ((size - 4) // len(unit)) + b'"]'

    return write


def _members(size: int) -> bytes:
    names = b",".join(b'"%06x":1' % number for number in range((size - 20) // 11))
    return b"{" + names + b',"instances":[1]}'


_ARRAYS: dict[str, Callable[[int], bytes]] = {
    "numbers": _array(b"1"),
    "numbers in one item": _array(b"1", opening=b"[[", closing=b"]]"),
    "numbers in 1024 items": lambda size: _array(_array(b"1")(size // 1024 - 2))(size),
    "numbers in 8000 items": lambda size: _array(_array(b"1")(size // 8000 - 2))(size),
    "numbers and NaN": _array(b"1", b"NaN"),
    "NaN": _array(b"NaN", b"NaN"),
    "Infinity in strings, and NaN": _array(b'"Infinity"', b"NaN"),
    "numbers that end in garbage": _array(b"1", b"1x"),
    "words": _array(b"a", b"a"),
    "NaN and words": _array(b"NaN", b"a"),
    "empty arrays": _array(b"[]", b"[]"),
    "empty strings": _array(b'""', b'""'),
    "empty objects": _array(b"{}", b"{}"),
    "arrays 64 deep": _array(b"[" * 64 + b"]" * 64),
    "arrays 900 deep": _array(b"[" * 900 + b"]" * 900),
    "arrays without an end": lambda size: b"[" * size,
    "objects 300 deep": _array(b'{"":' * 300 + b"0" + b"}" * 300),
    "names": _array(b'{"a":1,"b":2}'),
    "one name again and again": _array(b'"a":1', b'"a":1', b"[{", b"}]"),
    "spaces": lambda size: b"[" + b" " * (size - 3) + b"1]",
    "spaces between numbers": _array(b"1         "),
    "escapes": _string(b"\\n"),
    "backslashes": _string(b"\\\\"),
    "quotation marks": _string(b'\\"'),
    "surrogates": _string(b"\\ud83d\\ude00"),
    "other than ASCII": _string("é".encode()),
    "four bytes a character": _string("😀".encode()),
    "no UTF-8": _string(b"\xc3"),
    "colons": _string(b'\\" : '),
    "one number": lambda size: b"[" + b"1" * (size - 2) + b"]",
    "NUL and NaN": _array(b'"\0"', b"NaN"),
}
_OBJECTS: dict[str, Callable[[int], bytes]] = {
    "names that differ": lambda size: b"[" + _members(size - 2) + b"]"
}
_WHOLE: dict[str, Callable[[int], bytes]] = {
    "members": _members,
    "members and NaN": lambda size: _members(size - 9)[:-1] + b',"x":NaN}',
    "one member again and again": _array(b'"a":1', b'"instances":[1]', b"{", b"}"),
    "lists again and again": _array(b'"instances":[1]', b'"instances":[1]', b"{", b"}"),
    "a long member": lambda size: b'{"a":"' + b"x" * (size - 60) + b'","instances":[1,2,3]}',
    "a long name": lambda size: b'{"' + b"x" * (size - 60) + b'":1,"instances":[1,2,3]}',
    "members of a member": lambda size: b'{"parameters":' + _members(size - 30) + b"}",
    "inputs of both kinds": lambda size: (
        b'{"instances":[1],"inputs":' + _array(b"1")(size - 40) + b"}"
    ),
}


def _columns(size: int) -> tuple[bytes, dict[str, str]]:
    column = _array(b"1")(size // 1024 - 10)
    return b'{"inputs":{' + b",".join(b'"%d":%b' % (n, column) for n in range(1024)) + b"}}", {}


def _tensors() -> Iterator[Hostile]:
    form = make_format("open-inference")

    def one(name: str, make: Callable[..., bytes], *options: Any) -> Hostile:
        return Hostile(
            f"open-inference: {name}", form, _INFER, lambda size: (make(*options, size), {})
        )

    for name, element in {"strings": b'""', "numbers": b"1", "booleans": b"true"}.items():
        yield one(f"flat {name}", _flat, element)
        for dimensions in (2, _DIMENSIONS):
            yield one(f"{name}, {dimensions} dimensions", _nested, element, dimensions)
    tensor = b'{"name":"a","shape":[%b],"datatype":"BYTES"%b,"data":%b}'
    for name, array in _ARRAYS.items():
        yield one(
            f"{name} as data", _filled, b'{"inputs":[%b]}' % (tensor % (b"1", b"", b"%b")), array
        )
        yield one(f"{name} as inputs", _filled, b'{"inputs":%b}', array)
        said = tensor % (b"1", b',"parameters":{"a":%b}', b"[1]")
        yield one(f"{name} as parameters", _filled, b'{"inputs":[%b]}' % said, array)
    shaped = tensor % (b"1%b", b"", b"[1]")
    yield one("dimensions", _filled, b'{"inputs":[%b]}' % shaped, _array(b"1", b"1", b",", b""))
    said = tensor % (b"1", b',"parameters":%b', b"[1]")
    yield one("parameters", _filled, b'{"inputs":[%b]}' % said, _members)
    usual = tensor % (b"1", b"", b"[1]")
    yield one("tensors", _filled, b'{"inputs":%b}', _array(usual, usual))
    named = b'{"name":"a","parameters":{"a":1}}'
    outputs = b'{"inputs":[%b],"outputs":%%b}' % usual
    yield one("outputs", _filled, outputs, _array(named, named))
    strings = partial(_binary, 1)
    yield Hostile("open-inference: empty strings in bytes", form, _INFER, strings)
    strings = partial(_binary, 1024)
    yield Hostile("open-inference: 1024 tensors of empty strings", form, _INFER, strings)


def _filled(frame: bytes, make: Callable[[int], bytes], size: int) -> bytes:
    return frame % make(size - len(frame))


def _flat(element: bytes, size: int) -> bytes:
    count = (size - 100) // (len(element) + 1)
    return _strings(b"%d" % count, b"[" + b",".join([element] * count) + b"]")


def _nested(element: bytes, dimensions: int, size: int) -> bytes:
    row = b"[" * (dimensions - 1) + element + b"]" * (dimensions - 1)
    count = (size - 200) // (len(row) + 1)
    shape = b",".join([b"%d" % count] + [b"1"] * (dimensions - 1))
    return _strings(shape, b"[" + b",".join([row] * count) + b"]")


def _strings(shape: bytes, data: bytes) -> bytes:
    return b'{"inputs":[{"name":"a","shape":[%b],"datatype":"BYTES","data":%b}]}' % (shape, data)


def _binary(tensors: int, size: int) -> tuple[bytes, dict[str, str]]:
    counts = [max(1, size // 4 // tensors - 50)] * tensors
    described = b",".join(
        b'{"name":"%d","shape":[1,%d],"datatype":"BYTES","parameters":{"binary_data_size":%d}}'
        % (number, count, 4 * count)
        for number, count in enumerate(counts)
    )
    text = b'{"inputs":[%b]}' % described
    return text + bytes(4 * sum(counts)), {_JSON_LENGTH: str(len(text))}


def _packed_rows() -> Iterator[Hostile]:
    def array(unit: bytes) -> Callable[[int], bytes]:
        def write(size: int) -> bytes:
            count = (size - 20) // len(unit)
            return b"\xdd" + pack(">I", count) + unit * count

        return write

    units = {
        "numbers": b"\x01", "empty arrays": b"\x90", "empty strings": b"\xa0",
        "empty bytes": b"\xc4\0", "maps": b"\x81\xa0\x01", "deep": b"\x91" * 64 + b"\x01",
    }  # fmt: skip
    frames = {
        "a list": (b"%b", ""),
        "one item": (b"\x91%b", ""),
        "a list in a map": (b"\x81\xa1a%b", "/a"),
        "two items in a map": (b"\x81\xa1a\x92\x01%b", "/a"),
        "one beside the list": (b"\x82\xa1b%b\xa1a\x91\x01", "/a"),
        "a list in two maps": (b"\x81\xa1a\x81\xa1b\x92\x01%b", "/a/b"),
    }
    kinds = {name: array(unit) for name, unit in units.items()}
    kinds["nested without an end"] = lambda size: b"\x91" * size
    kinds["a claim of 4 GiB"] = lambda size: b"\xdd\xff\xff\xff\xff" + b"\x01" * (size - 20)
    kinds["a map"] = lambda size: _packed_members(size // 8 - 4)
    for name, (frame, items) in frames.items():
        form = make_format("msgpack", items)
        for kind, make in kinds.items():
            yield Hostile(f"msgpack, {kind} as {name}", form, "/", partial(_plain, frame, make))


def _packed_members(count: int) -> bytes:
    return b"\xdf" + pack(">I", count) + b"".join(b"\xa6%06x\1" % n for n in range(count))
