"""Forms, `multipart/form-data`, whose parts are the fields of an item."""

import asyncio
import enum
import sys
import types

import aiohttp
import msgspec
import pydantic
import pytest

from adaptive_batching.errors import InvalidItem, MalformedBody
from adaptive_batching.marshal.service.service import Service
from adaptive_batching.payloads.codecs import Codec
from adaptive_batching.payloads.forms import MOST_PARTS, form_schema
from adaptive_batching.payloads.reading import make_reader
from adaptive_batching.payloads.writing import make_item_writer
from tests.marshal.client import client_of


class Size(enum.Enum):
    SMALL = "small"
    LARGE = "large"


class Upload(msgspec.Struct):
    image: bytes
    title: str = ""
    width: int = 0
    size: Size = Size.SMALL
    tags: list[str] = []
    weights: list[float] = []
    more: list[bytes] = []


class Signed(pydantic.BaseModel):
    image: bytes
    width: int


class Renamed(msgspec.Struct, rename="camel"):
    line_count: int


class Aliased(pydantic.BaseModel):
    lines: list[int] = pydantic.Field(alias="theLines")


service = Service("forms")
JSON = {"Content-Type": "application/json"}
PIXELS = bytes(range(256)) + b"\r\n--\r\n"


@service.endpoint("/uploads", codec=["multipart", "json"], examples=[Upload(PIXELS, "é")])
class Uploads:
    def __call__(self, uploads: list[Upload]) -> list[tuple[int, str, int, str, list[str], float]]:
        return [
            (
                len(each.image) + sum(map(len, each.more)),
                each.title,
                each.width,
                each.size.value,
                each.tags,
                sum(each.weights),
            )
            for each in uploads
        ]


@service.endpoint("/signed", codec="multipart")
async def signed(items: list[Signed]) -> list[int]:
    return [len(each.image) * each.width for each in items]


@service.endpoint("/any", codec="multipart")
async def anything(items):
    return [[str(item["text"]), len(item["file"])] for item in items]


def form(**fields):
    data = aiohttp.FormData(default_to_multipart=True)
    for name, values in fields.items():
        for value in values if isinstance(values, list) else [values]:
            if isinstance(value, bytes):
                data.add_field(name, value, filename="file.png", content_type="image/png")
            else:
                data.add_field(name, value)
    return data


async def test_parts_are_fields():
    """Files are bytes, text is what its field is declared as, repeated parts are a list."""
    async with client_of(service) as client:
        sent = form(
            image=PIXELS, title="5", width="3", size="large", tags=["a", "b"], weights="[1, 2.5]",
            more=[b"x", b"yz"],
        )  # fmt: skip
        answers = await asyncio.gather(
            client.send("POST", "/uploads", data=sent),
            client.send("POST", "/uploads", data=form(image=b"a")),
            client.send("POST", "/signed", data=form(image=b"abc", width="2")),
            client.post("/uploads", {"image": "", "width": 4}, headers=JSON),
            client.send("POST", "/any", data=form(text="t", file=b"abc")),
        )
        assert [answer.json for answer in answers] == [
            [len(PIXELS) + 3, "5", 3, "large", ["a", "b"], 3.5],
            [1, "", 0, "small", [], 0],
            6,
            [0, "", 4, "small", [], 0],
            ["t", 3],
        ]
        upload = Upload(PIXELS, "t", 2, Size.LARGE, ["a"], [0.5], [b"b"])
        told = await service["/uploads"](upload)
        assert told == (len(PIXELS) + 1, "t", 2, "large", ["a"], 0.5)
        assert await service["/signed"](Signed(image=b"ab", width=3)) == 6

        document = (await client.get("/openapi.json")).json
        body = document["paths"]["/uploads"]["post"]["requestBody"]["content"]
        described = body["multipart/form-data"]["schema"]["properties"]
        assert described["image"] == {"type": "string", "format": "binary"}
        assert described["title"] == {"type": "string"}


async def test_forms_that_are_refused():
    """By the field that is wrong, or as what can't be read."""
    async with client_of(service) as client:
        wrong = [
            ({"title": "no image"}, 422, "$"),
            ({"image": b"a", "width": "three"}, 422, "$.width"),
            ({"image": b"a", "width": '"3"'}, 422, "$.width"),
            ({"image": b"a", "size": "huge"}, 422, "$.size"),
            ({"image": [b"a", b"b"]}, 422, "$.image"),
            ({"image": b"a", "title": b"\xff"}, 422, "$.title"),
        ]
        for fields, status, path in wrong:
            answer = await client.send("POST", "/uploads", data=form(**fields))
            assert (answer.status, answer.json["path"]) == (status, path)
        kind = {"Content-Type": "multipart/form-data; boundary=b"}
        for body in (b"", b"--b", b"--b\r\n\r\nx\r\n--b--", b"--b\r\nA: b\r\n\r\nx"):
            answer = await client.post("/uploads", body, headers=kind)
            assert (answer.status, answer.error) == (400, "malformed")


@pytest.mark.parametrize("item", [Renamed(2), Aliased(theLines=[1, 2])])
def test_fields_that_have_other_names_in_bodies(item):
    """A part is read as the field of that name, is written under it, and described by it."""
    kind = type(item)
    write, read = make_item_writer(Codec.MULTIPART, kind), make_reader(Codec.MULTIPART, kind)
    assert read(write(item)) == item
    assert form_schema(kind)["properties"].keys() <= {"lineCount", "theLines"}


def test_hostile_forms_cost_little():
    """Parts are counted before they are made, and so are their headers."""
    read = make_reader(Codec.MULTIPART, Upload)
    head = b'Content-Disposition: form-data; name="a"'
    part = b"--b\r\n" + head + b"\r\n\r\n\r\n"
    for body in (
        part * (MOST_PARTS + 1) + b"--b--\r\n",
        b"--b\r\n" + (head + b"\r\n") * 9 + b"\r\n\r\n--b--\r\n",
        b"--b\r\n" + head + b"x" * 10_000 + b"\r\n\r\n\r\n--b--\r\n",
        b"--" + b"b" * 71 + b"\r\n",
        b"--b\r\n" * 100_000,
        b"--b\r\n" + head + b"\r\n\r\n" + b"\r\n--" * 100_000,
    ):
        with pytest.raises((MalformedBody, InvalidItem)):
            read(body)
    with pytest.raises(MalformedBody, match="expected a form of at most 128 parts"):
        read(part * 1000 + b"--b--\r\n")


def test_the_parser_is_missing(monkeypatch):
    """The package is named at registration, also where another one has a module of its name."""
    for module in (None, types.ModuleType("multipart")):
        monkeypatch.setitem(sys.modules, "multipart", module)
        with pytest.raises(ModuleNotFoundError, match="pip install multipart"):
            Service().endpoint("/a", codec="multipart")(anything)


def test_what_can_be_no_form():
    """It is found when the endpoint is registered."""

    async def numbers(items: list[int]) -> list[int]:
        return items

    with pytest.raises(TypeError, match=r"expected a type with fields, .* multipart, got .*int"):
        Service().endpoint("/a", codec="multipart")(numbers)
    with pytest.raises(ValueError, match="result_codec: expected one that results can have"):
        Service().endpoint("/a", result_codec="multipart")(numbers)
