"""Items and results of declared types: what passes, and what is said of what doesn't."""

import pickle
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import numpy as np
import pydantic
import pytest
from numpy.typing import NDArray

from adaptive_batching.errors import (
    BatchFunctionError,
    HandlerNotFound,
    InvalidItem,
    MalformedBody,
)
from adaptive_batching.payloads.arrays.marks import DType, Shape
from adaptive_batching.payloads.codecs import Codec
from adaptive_batching.payloads.contract import Contract, Declaration
from adaptive_batching.payloads.payload import Payload
from adaptive_batching.workers.handler.pickled import Pickled


class Image(msgspec.Struct):
    pixels: list[float]
    name: str = ""


@dataclass
class Point:
    x: int
    y: int


class Movie(TypedDict):
    title: str
    year: int


class Model(pydantic.BaseModel):
    pixels: list[float]
    kind: Literal["png", "jpg"] = "png"


class Even(msgspec.Struct):
    number: int

    def __post_init__(self) -> None:
        if self.number % 2:
            raise ValueError("expected an even number")


class Scan(msgspec.Struct):
    voxels: np.ndarray[tuple[Literal[2], int], np.dtype[np.float32]]
    mask: NDArray[np.bool_] | None = None


Probability = Annotated[float, msgspec.Meta(ge=0, le=1)]
Tiny = Annotated[np.ndarray, Shape(2, None), DType("uint8")]
Small = Annotated[np.ndarray, Shape(None, 2), DType("uint8")]


def read(kind: Any, body: bytes, codec: Codec = Codec.JSON) -> Any:
    return Payload((codec,), kind).readers()[0](body)


def write(kind: Any, result: Any, codec: Codec = Codec.JSON) -> bytes:
    return Payload((codec,), kind, "Digits").writers()[0](result)


@pytest.mark.parametrize(
    ("kind", "body", "item"),
    [
        (Image, b'{"pixels": [1, 2.5]}', Image([1.0, 2.5])),
        (Point, b'{"x": 1, "y": 2}', Point(1, 2)),
        (Movie, b'{"title": "M", "year": 1931}', {"title": "M", "year": 1931}),
        (Model, b'{"pixels": [1]}', Model(pixels=[1.0])),
        (list[Model], b'[{"pixels": []}]', [Model(pixels=[])]),
        (int | None, b"null", None),
        (bytes, b'"aGk="', b"hi"),
        (datetime, b'"2026-01-01T00:00:00"', datetime(2026, 1, 1)),  # noqa: DTZ001
        (Probability, b"1", 1.0),
        (Any, b'{"any": ["thing"]}', {"any": ["thing"]}),
        (dict[str, list[int]], b'{"a": [1]}', {"a": [1]}),
    ],
)
def test_what_is_of_its_type(kind, body, item):
    """The handler gets an object of that very type."""
    got = read(kind, body)
    assert got == item
    assert type(got) is type(item)


@pytest.mark.parametrize(
    ("kind", "body", "told"),
    [
        (Image, b'{"pixels": [1, 2, 3, "4"]}', "$.pixels[3]: expected float, got str"),
        (Image, b"{}", "$: object missing required field pixels"),
        (Point, b'{"x": 1, "y": 2.5}', "$.y: expected int, got float"),
        (Movie, b'{"title": 1, "year": 1931}', "$.title: expected str, got int"),
        (list[Point], b'[{"x": 1, "y": 2}, 3]', "$[1]: expected object, got int"),
        (Probability, b"1.5", "$: expected float <= 1.0"),
        (Even, b'{"number": 3}', "$: expected an even number"),
        (Literal["a", "b"], b'"c"', "$: invalid enum value 'c'"),
        (float, b"1e999", "$: number out of range"),
        (dict[str, int], b'{"a": 1, "b": "b"}', "$.b: expected int, got str"),
        (dict[str, int], b'{"a": "b", "c": 1e999}', "$[...]: expected int, got str"),
        (dict[str, list[int]], b'{"a": [1, "b"]}', "$.a[1]: expected int, got str"),
        (NDArray[np.int64], b"[[1], [2, 3]]", "$: expected array of int64, got lists of several"),
        (Tiny, b"[[1, 2], [3, 256]]", "$[1][1]: expected int <= 255"),
        (Tiny, b"[[1], [2], [3]]", "$: expected array of length 2, got 3"),
        (Small, b"[[1, 2], [3]]", "$[1]: expected array of length 2, got 1"),
        (Scan, b'{"voxels": [[1], ["2"]]}', "$.voxels[1][0]: expected float, got str"),
        (Scan, b'{"voxels": [[1]]}', "$.voxels: expected array of length 2, got 1"),
        (Model, b'{"pixels": [1, "a"]}', "$.pixels[1]: input should be a valid number"),
        (Model, b'{"pixels": [], "kind": "gif"}', "$.kind: input should be 'png' or 'jpg'"),
        (str, b"1", "$: expected str, got int"),
    ],
)
def test_where_the_fault_is(kind, body, told):
    """The path, what was expected there and what came."""
    with pytest.raises(InvalidItem) as refusal:
        read(kind, body)
    assert str(refusal.value).startswith(told)
    again = pickle.loads(pickle.dumps(refusal.value))
    assert (str(again), again.status) == (str(refusal.value), 422)


@pytest.mark.parametrize("kind", [Any, Image, Model, Tiny, Point, float, list[Any]])
@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"NaN", b"[Infinity]", b"\xff", b'{"pixels": [NaN]}', b'"\\ud800"', b"[" * 99_999],
    ids=lambda body: repr(body[:20]),
)
def test_what_is_no_json_of_any_type(kind, body):
    """It is refused as it is without a type, or for what comes before that is seen."""
    with pytest.raises((MalformedBody, InvalidItem)) as refusal:
        read(kind, body)
    if kind in {Any, Model}:
        assert type(refusal.value) is MalformedBody


def test_fields_that_hold_arrays():
    """Within a struct, as NumPy's own annotations say."""
    scan = read(Scan, b'{"voxels": [[1, 2], [3, 4]], "mask": [true, false]}')
    assert scan.voxels.dtype == np.float32
    assert scan.voxels.tolist() == [[1, 2], [3, 4]]
    assert scan.mask.dtype == np.bool_


@pytest.mark.parametrize(
    ("kind", "body", "dtype"),
    [
        (Tiny, b"[[1,2],[3,255]]", "uint8"),
        (NDArray[np.float32], b"[1.0,2.5]", "float32"),
        (np.ndarray, b"[[1,2],[3,4]]", "int64"),
        (np.ndarray[tuple[int, Literal[2]], np.dtype[np.int8]], b"[[1,-128]]", "int8"),
        (NDArray[np.uint64], b"[18446744073709551615]", "uint64"),
        (NDArray[np.floating], b"[1.5]", "float64"),
        (Annotated[np.ndarray, Shape(None, 2), DType("int8")], b"[]", "int8"),
        (np.float32, b"1.5", "float32"),
        (np.bool_, b"true", "bool"),
    ],
    ids=str,
)
def test_arrays_as_nested_lists(kind, body, dtype):
    """They come with the declared dtype, or that of their numbers."""
    array = read(kind, body)
    assert array.dtype == dtype
    assert write(kind, array) == body


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (np.ndarray, b"[[1], [2, 3]]"),
        (np.ndarray, b'["a"]'),
        (np.ndarray, b"[null]"),
        (np.ndarray, b"[18446744073709551616]"),
        (NDArray[np.int8], b"[300]"),
        (NDArray[np.uint64], b"[-1]"),
        (NDArray[np.float32], b'["1"]'),
        (Annotated[np.ndarray, Shape(1), DType("float32")], b"[1e39]"),
        (Annotated[np.ndarray, Shape(None, None)], b"[[1], [2, 3]]"),
    ],
    ids=str,
)
def test_lists_that_are_no_such_array(kind, body):
    """Ragged, out of range, or no numbers."""
    with pytest.raises(InvalidItem):
        read(kind, body)


@pytest.mark.parametrize("codec", [Codec.JSON, Codec.MSGPACK])
@pytest.mark.parametrize("kind", [np.ndarray, NDArray[np.float32], list[np.ndarray]])
def test_strings_do_not_take_the_memory_of_the_longest(codec, kind):
    """A body of a few hundred KiB would take all that the machine has, and its worker with it."""
    encode = msgspec.json.encode if codec is Codec.JSON else msgspec.msgpack.encode
    lists = [[["a" * 100_000], *[["b"]] * 100_000]]
    with pytest.raises(InvalidItem, match=r"\$\[0\]"):
        read(kind, encode(lists), codec)


def test_arrays_of_as_many_dimensions_as_there_can_be():
    """And no more."""
    assert read(np.ndarray, b"[" * 64 + b"1" + b"]" * 64).shape == (1,) * 64
    with pytest.raises(InvalidItem):
        read(np.ndarray, b"[" * 65 + b"1" + b"]" * 65)


@pytest.mark.parametrize("codec", [Codec.JSON, Codec.MSGPACK])
@pytest.mark.parametrize(
    ("kind", "result"),
    [
        (Image, Image([1.0])),
        (Point, {"x": 1, "y": 2}),
        (Model, Model(pixels=[1])),
        (float, np.float32(1.5)),
        (list[int], np.array([1, 2])),
        (np.float32, np.float64(1.1)),
        (NDArray[np.float16], np.array([1.1, 2])),
        (Tiny, [[1], [2]]),
        (Any, {"a": None}),
        (bytes, b"hi"),
    ],
)
def test_results_of_their_type(codec, kind, result):
    """NumPy's numbers count as Python's, and what is written can be read as what it is."""
    body = write(kind, result, codec)
    assert write(kind, read(kind, body, codec), codec) == body


@pytest.mark.parametrize(
    ("kind", "result", "told"),
    [
        (int, 1.5, r"Digits returned what is not of its type int: \$: expected int, got float"),
        (int, None, "expected int, got null"),
        (float, float("nan"), "can't be written as json: NaN"),
        (float | None, float("nan"), "can't be written as json: NaN"),
        (Image, Image([1.0, "a"]), r"\$.pixels\[1\]: expected float, got str, in Image"),
        (Model, Model.model_construct(pixels="a"), r"\$.pixels"),
        (Model, Model(pixels=[float("nan")]), "Digits returned Model, which can't be written"),
        (Tiny, np.zeros((2, 1), "int64"), "expected dtype uint8, got int64"),
        (NDArray[np.float32], np.zeros(2, "int64"), "expected dtype float32, got int64"),
        (NDArray[np.float32], np.array([1e39]), r"up to 3.40282e\+38 for float32, got larger"),
        (Tiny, np.zeros((3, 1), "uint8"), r"expected shape \(2, any\), got \(3, 1\)"),
        (Tiny, [[300], [1]], r"not of its type .*: \$: expected array .* of uint8, got something"),
        (Tiny, [[1.5], [1]], r"expected elements of uint8, got float64"),
        (Any, object(), "Digits returned object, which can't be written as json"),
    ],
)
def test_results_that_are_not(kind, result, told):
    """The handler is named, and what it returned is told, to the log."""
    with pytest.raises(BatchFunctionError, match=told):
        write(kind, result)


def test_msgpack_of_other_programs():
    """An extension is malformed: no handler could know what it means."""
    for body in (b"\xd4\x05a", b"\x91\xd4\x05a", b"\x81\xa1a\xc7\x00\x05"):
        with pytest.raises(MalformedBody, match="without extensions of its own, got code 5"):
            read(Any, body, Codec.MSGPACK)
    assert np.isnan(read(float, b"\xcb\x7f\xf8\0\0\0\0\0\0", Codec.MSGPACK))


def test_raw_bodies():
    """They are bytes, or text in UTF-8."""
    assert read(Any, b"\xff", Codec.RAW) == b"\xff"
    assert read(bytes, b"\xff", Codec.RAW) == b"\xff"
    assert read(str, "é".encode(), Codec.RAW) == "é"
    with pytest.raises(InvalidItem, match="expected UTF-8, got another byte at 1"):
        read(str, b"a\xff", Codec.RAW)
    assert write(str, "é", Codec.RAW) == "é".encode()
    assert write(Any, memoryview(b"a"), Codec.RAW) == b"a"
    with pytest.raises(BatchFunctionError, match="expected str, got int"):
        write(str, 5, Codec.RAW)


@pytest.mark.parametrize(
    ("kind", "codec", "told"),
    [
        (complex, "json", "item: expected a type that can be validated, or Any, got .*complex"),
        (dict[str, object], "json", "item: expected a type that can be validated"),
        (Image | Even, "json", "item: .*must be tagged"),
        (int, "raw", "item: expected bytes or str for the codec raw"),
        (Image, "npy", "item: expected an array for the codec npy"),
        (list[Tiny], "json", "item: expected Shape and DType on an array that is the whole of it"),
        (Tiny | None, "json", "item: expected Shape and DType on an array"),
    ],
)
def test_types_that_cannot_be_declared(kind, codec, told):
    """It is told at once, not with the first request."""
    declaration = Declaration(item=kind, result=Any, codec=codec, result_codec="json")
    with pytest.raises(TypeError, match=told):
        Contract.of(declaration, sorted, sorted)


@pytest.mark.parametrize(
    ("codec", "error", "told"),
    [
        ("xml", ValueError, "codec: expected json, msgpack, raw, npy, multipart, got 'xml'"),
        ([], ValueError, "expected one or several"),
        (["json", "json"], ValueError, "expected one or several"),
        ([5], TypeError, "expected json, msgpack, raw, npy, multipart, got 5"),
    ],
)
def test_codecs_that_are_none(codec, error, told):
    """Named with those that there are."""
    with pytest.raises(error, match=told):
        Contract.of(Declaration(codec=codec), sorted, sorted)


def test_marks_that_cannot_be():
    """Of shapes and of dtypes."""
    with pytest.raises(ValueError, match="expected lengths of 0 or more, or None"):
        Shape(-1)
    with pytest.raises(TypeError, match="expected bools, integers or floats, got object"):
        DType(object)
    assert str(Annotated[int, Shape(2, None), DType("f4")]).endswith(
        "Shape(2, None), DType('float32')]"
    )


def test_types_travel_to_worker_processes():
    """With their constraints, which pickle alone would not take."""
    for kind in (Image, Tiny, list[Probability], Model, Scan, Literal["a"], int | None):
        payload = Payload((Codec.JSON,), kind, "Digits")
        assert pickle.loads(pickle.dumps(payload)).handler == "Digits"
    probability = pickle.loads(pickle.dumps(Payload((Codec.JSON,), Probability)))
    with pytest.raises(InvalidItem, match="expected float <= 1"):
        probability.readers()[0](b"2")

    class Local(msgspec.Struct):
        pass

    with pytest.raises(HandlerNotFound, match=r"Local.*: define it at the top level of a module"):
        Pickled.of(Payload((Codec.JSON,), Local))


def test_types_travel_with_ray():
    """By value, where the program's own module can't be imported, as handlers do."""
    cloudpickle = pytest.importorskip("ray.cloudpickle")
    kind = msgspec.defstruct("Local", [("share", Probability)], module="__main__")
    payload = cloudpickle.loads(cloudpickle.dumps(Payload((Codec.JSON,), kind)))
    assert payload.readers()[0](b'{"share": 0.5}').share == 0.5
    with pytest.raises(InvalidItem, match="expected float <= 1"):
        payload.readers()[0](b'{"share": 2}')


@pytest.mark.parametrize("body", [b"[1", b'{"pixels": [[]}', b'"a', b'["a"] x', b"{]"])
@pytest.mark.parametrize("kind", [int, Image, NDArray[np.float32]])
def test_a_broken_body_is_no_item_of_another_type(body, kind):
    """It is malformed, although what stands before the break is not of the type."""
    with pytest.raises(MalformedBody):
        Payload((Codec.JSON,), kind).readers()[0](body)
