"""Declared types and codecs over HTTP: who sends what an endpoint doesn't take is told, alone."""

import asyncio
import io
import json

import aiohttp
import msgspec
import numpy as np
import pytest
import pytest_asyncio

from adaptive_batching.core import JobOutcome
from adaptive_batching.errors import InvalidItem
from adaptive_batching.marshal.service.service import Service
from adaptive_batching.wire.error_reply import MESSAGES
from adaptive_batching.workers.placement import Tasks
from tests.marshal import apps
from tests.marshal.client import client_of
from tests.marshal.service import typed


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client():
    async with client_of(typed.service) as client:
        yield client


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_an_item_of_another_type_harms_nobody_else(client, caplog):
    """It is refused with the path of its fault; a wrong result is its handler's and is logged."""
    before = client.stats("/digits").batches
    answers = await asyncio.gather(
        client.post("/digits", {"pixels": [1, 2], "name": "a"}),
        client.post("/digits", {"pixels": [1, 2, 3, "4"]}, headers={"X-Request-Id": "mine"}),
        client.post("/digits", {"pixels": [0.5]}),
        client.post("/digits", {"pixels": [4]}),
    )
    assert [answer.status for answer in answers] == [200, 422, 500, 200]
    good, invalid, wrong, last = answers
    assert (good.json, last.json) == ({"digit": 3, "name": "a"}, {"digit": 4, "name": ""})
    assert invalid.json == {
        "error": "invalid_item",
        "request_id": "mine",
        "path": "$.pixels[3]",
        "message": "expected float, got str",
    }
    assert wrong.error == "bad_batch_result"
    assert wrong.json["message"] == MESSAGES["bad_batch_result"]
    assert client.stats("/digits").batches == before + 1
    (logged,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "Digits returned what is not of its type Label: $.digit: expected int" in logged
    assert wrong.json["request_id"] in logged


@pytest.mark.parametrize("path", ["/people", "/count"])
async def test_who_sends_no_item_is_answered_and_nothing_has_failed(client, path):
    """Else any client could have operators called out, for a handler that is well."""
    line = client.running.endpoints[path].backend
    before = line.stats().requests
    for body, status in ((b"[]", 422), (b"?", 400)):
        assert (await client.post(path, body)).status == status
    after = line.stats().requests
    assert after[JobOutcome.DONE] == before[JobOutcome.DONE] + 2
    assert after[JobOutcome.FAILED] == before[JobOutcome.FAILED]


async def test_each_of_a_batch_in_its_own_codec(client):
    """What is asked for in one is answered in another, if its client wants that."""
    value = {"pixels": [1], "name": "é"}
    packed = msgspec.msgpack.encode(value)
    as_msgpack = {"Content-Type": "application/msgpack"}
    answers = await asyncio.gather(
        client.post("/digits", value),
        client.post("/digits", packed, headers=as_msgpack),
        client.post("/digits", packed, headers=as_msgpack | {"Accept": "application/json"}),
        client.post("/digits", value, headers={"Accept": "application/msgpack, */*;q=0.1"}),
    )
    assert [answer.status for answer in answers] == [200] * 4
    kinds = [answer.headers["Content-Type"].rpartition("/")[2] for answer in answers]
    assert kinds == ["json", "msgpack", "json", "msgpack"]
    read = [msgspec.msgpack.decode if kind == "msgpack" else json.loads for kind in kinds]
    label = {"digit": 1, "name": "é"}
    assert [decode(answer.body) for decode, answer in zip(read, answers, strict=True)] == [
        label
    ] * 4


async def test_arrays(client):
    """As `.npy` or as nested lists; of another dtype or shape they are refused."""
    array = np.arange(6, dtype="float32").reshape(2, 3)
    answer = await client.post("/arrays", npy(array), headers={"Content-Type": "application/x-npy"})
    assert answer.headers["Content-Type"] == "application/x-npy"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    np.testing.assert_array_equal(np.load(io.BytesIO(answer.body)), array * 2)
    answer = await client.post(
        "/arrays", array.tolist(), headers={"Content-Type": "application/json; charset=utf-8"}
    )
    assert answer.json == (array * 2).tolist()
    wrong = await client.post("/arrays", npy(np.zeros((2, 3))))
    assert (wrong.status, wrong.json["message"]) == (422, "expected dtype float32, got float64")
    cut = await client.post("/arrays", npy(array)[:-1])
    assert (cut.status, cut.error) == (400, "malformed")


async def test_raw_bodies(client):
    """Whatever they are called; text is text."""
    for kind in ("image/png", "application/octet-stream", "text/plain", "application/json"):
        answer = await client.post("/lengths", b"\x89PNG", headers={"Content-Type": kind})
        assert (answer.status, answer.json) == (200, 4)
    answer = await client.post("/upper", "é".encode())
    assert (answer.body.decode(), answer.headers["Content-Type"]) == (
        "É",
        "text/plain; charset=utf-8",
    )
    assert (await client.post("/upper", b"\xff")).status == 422


async def test_a_form_is_no_raw_body(client):
    """Its envelope does not reach the handler, and the client is told what to send."""
    with aiohttp.MultipartWriter("form-data") as form:
        form.append(b"\x89PNG").set_content_disposition("form-data", name="f", filename="f.png")
    async with client.session.post(client.running.url + "/lengths", data=form) as answer:
        assert answer.status == 415
        assert "send the file itself" in (await answer.json())["message"]
    curls = {"Content-Type": "application/x-www-form-urlencoded"}  # whatever --data-binary sends
    assert (await client.post("/lengths", b"\x89PNG", headers=curls)).json == 4


async def test_models_of_pydantic(client):
    """Validated by pydantic, read as strictly as all JSON is."""
    assert (await client.post("/people", {"name": "A", "age": 3})).json == {"name": "A", "age": 4}
    old = await client.post("/people", {"name": "A", "age": 151})
    assert (old.status, old.json["path"]) == (422, "$.age")
    assert (await client.post("/people", b'{"name": "A", "age": NaN}')).status == 400
    assert (await client.post("/people", {"name": "A", "age": 150})).status == 500


async def test_a_pipeline(client):
    """Its first stage says what comes, its last one what goes."""
    assert (await client.post("/count", "a b c")).json == 3
    answer = await client.post("/count", ["a"])
    assert (answer.status, answer.json["message"]) == (422, "expected str, got array")


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"Content-Type": "application/xml"}, 415, "unsupported_media_type"),
        ({"Content-Type": "application/x-npy"}, 415, "unsupported_media_type"),
        ({"Content-Type": "multipart/form-data; boundary=a"}, 415, "unsupported_media_type"),
        ({"Accept": "text/html"}, 406, "not_acceptable"),
        ({"Accept": "application/json;q=0, application/msgpack;q=0"}, 406, "not_acceptable"),
        ({"Accept": "application/json;q=much"}, 422, "invalid_item"),
        ({"Accept": "application/*;q=0.5, application/msgpack;q=0"}, 422, "invalid_item"),
        ({"Accept": "*/*"}, 422, "invalid_item"),
        ({"Accept": ""}, 422, "invalid_item"),
        ({"Content-Type": "APPLICATION/JSON"}, 422, "invalid_item"),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 422, "invalid_item"),
        ({"Content-Type": "text/plain"}, 422, "invalid_item"),
    ],
)
async def test_codecs_that_are_not_spoken(client, headers, status, code):
    """They are told apart from those that are, before anybody reads the body."""
    answers = await asyncio.gather(*(client.post("/digits", 5, headers=headers) for _ in range(4)))
    assert {(answer.status, answer.error) for answer in answers} == {(status, code)}
    assert {answer.headers["Content-Type"] for answer in answers} == {"application/json"}
    if status == 415:
        spoken = "application/json, application/msgpack"
        assert answers[0].headers["Accept"] == spoken
        assert answers[0].json["message"].startswith(f"expected a body of {spoken}, got ")


async def test_a_handler_refuses_what_a_type_can_not():
    """Its own words reach the client, and only the one whose item it was."""
    service = Service()

    @service.endpoint("/known", max_batch_size=2, policy="window:1h")
    async def known(items: list[int]) -> list[int]:
        return [each if each < 9 else InvalidItem("$", "expected a known one") for each in items]

    async with client_of(service) as client:
        good, bad = await asyncio.gather(client.post("/known", 1), client.post("/known", 9))
    assert (good.status, bad.status, bad.error) == (200, 422, "invalid_item")
    assert (bad.json["path"], bad.json["message"]) == ("$", "expected a known one")


async def test_examples_of_a_handler():
    """It may bring its own; they are of its type, or the author is told."""
    service = Service()
    batches = []

    @service.endpoint("/own", max_batch_size=1, workers=Tasks(1))
    class Own:
        examples = (typed.Image([1.0]),)

        async def __call__(self, images: list[typed.Image]) -> list[int]:
            batches.append(images)
            return [1] * len(images)

    async with client_of(service):
        assert batches == [[typed.Image([1.0])]] * 3
    with pytest.raises(ValueError, match=r"examples: expected .*Image.*, got \$: expected object"):
        service.endpoint("/wrong", examples=[5])(Own)


async def test_mistakes_in_a_declaration():
    """They are found where they are made."""
    service = Service()
    with pytest.raises(ValueError, match="codec: expected one for a pipeline"):
        service.add_pipeline("/a", typed.Pipeline([typed.Stage(sorted)]), codec=["json", "npy"])
    with pytest.raises(ValueError, match=r"result_codec: expected json, .* npy, multipart"):
        service.endpoint("/a", result_codec="yaml")(apps.Square)
    with pytest.raises(TypeError, match=r"result: expected an array for the codec npy, got .*int"):
        service.endpoint("/a", result=int, result_codec="npy")(apps.Square)
    with pytest.raises(TypeError, match=r"result: .* for the codec npy.*result_codec='json'"):
        service.endpoint("/a", result=int, codec=["json", "npy"])(apps.Square)
    with pytest.raises(ValueError, match="paths have no parameters, items have fields"):
        service.endpoint("/items/{id}")


async def test_handlers_that_can_not_work():
    """An annotation that is no list, and a handler that yields, are refused with the right form."""

    async def yields(items):
        yield items

    def takes_one(x: int) -> list[int]:
        return [x]

    def returns_a_dict(items: list[int]) -> dict[str, list[int]]:
        return {"results": items}

    wrong = {
        yields: "expected one that returns a list, got .*yields, which yields",
        takes_one: r"to take a list of items, such as list\[int\], got the annotation int",
        returns_a_dict: r"to return a list with one result for each item, such as .*dict\[str",
    }
    for handler, message in wrong.items():
        with pytest.raises(TypeError, match=message):
            Service().endpoint("/a")(handler)
