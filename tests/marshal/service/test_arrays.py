"""Endpoints whose handlers take one stacked array: bodies in, rows out."""

import asyncio
import io
from typing import Annotated, TypedDict

import numpy as np
import pytest
from numpy.typing import NDArray

from adaptive_batching import DType, Padded, Processes, Service, Shape, Threads
from tests.marshal.client import client_of

service = Service("arrays")
calls: list[tuple[int, ...]] = []


@service.endpoint(
    "/sums", workers=Threads(1), policy="window:1h", max_batch_size=4, codec=["json", "npy"]
)
def sums(x: Annotated[NDArray[np.float32], Shape(2)]) -> NDArray[np.float32]:
    calls.append(x.shape)
    return x.sum(axis=1)


class Tokens(TypedDict):
    ids: Annotated[NDArray[np.int64], Shape(None), DType("int64"), Padded(value=-1)]
    weight: Annotated[NDArray[np.float32], Shape()]


class Reading(TypedDict):
    length: NDArray[np.int64]
    padded: NDArray[np.int64]


@service.endpoint(
    "/tokens", workers=Threads(1), max_batch_size=4, examples=[{"ids": [1, 2, 3], "weight": 0.5}]
)
def tokens(x: Tokens, lengths: dict[str, NDArray[np.int64]]) -> Reading:
    assert x["weight"].shape == x["ids"].shape[:1]
    calls.append(x["ids"].shape)
    return {"length": lengths["ids"], "padded": (x["ids"] == -1).sum(axis=1)}


apart = Service("apart")


@apart.endpoint("/scaled", workers=Processes(1), init_args={"factor": 3})
class Scaled:
    def __init__(self, factor: int) -> None:
        self.factor = factor

    def __call__(self, x: NDArray[np.int64]) -> NDArray[np.int64]:
        return x * self.factor


async def test_a_wrong_array_is_told_to_its_own_client():
    """The others of its batch are stacked without it, and each gets its own row."""
    async with client_of(service) as client:
        calls.clear()
        answers = await asyncio.gather(
            *(client.post("/sums", body) for body in ([1, 2], [1], [3, 4], [[1, 2], [3, 4]]))
        )
        assert [answer.status for answer in answers] == [200, 422, 200, 422]
        assert (answers[0].json, answers[2].json) == (3.0, 7.0)
        assert answers[1].json["message"] == "expected array of length 2, got 1"
        assert calls == [(2, 2)]


async def test_each_answer_in_its_own_codec():
    """An array of `.npy` is stacked with one of JSON; one of another dtype is told so."""
    npy = {"Content-Type": "application/x-npy"}
    bodies = [io.BytesIO() for _ in range(2)]
    for body, dtype in zip(bodies, ("float32", "float64"), strict=True):
        np.save(body, np.array([1, 2], dtype))
    async with client_of(service) as client:
        first, wide, listed, _ = await asyncio.gather(
            *(client.post("/sums", body.getvalue(), headers=npy) for body in bodies),
            *(client.post("/sums", [5, 6]) for _ in range(2)),
        )
        assert np.load(io.BytesIO(first.body)) == np.float32(3)
        assert (wide.status, wide.json["message"]) == (422, "expected dtype float32, got float64")
        assert listed.json == 11.0


async def test_arrays_by_name_are_described_warmed_up_and_padded():
    """The example goes through in batches of 1, 2 and 4; documents say what is sent."""
    calls.clear()
    async with client_of(service) as client:
        assert set(calls) == {(1, 3), (2, 3), (4, 3)}
        answers = await asyncio.gather(
            client.post("/tokens", {"ids": [7], "weight": 1}),
            client.post("/tokens", {"ids": [7, 8, 9], "weight": 1}),
            client.post("/tokens", {"ids": [7, "8"], "weight": 1}),
            client.post("/tokens", {"ids": [7]}),
        )
        document = (await client.get("/openapi.json")).json
    one, three, text, missing = answers
    assert (one.json["length"], three.json) == (1, {"length": 3, "padded": 0})
    assert (text.status, text.json["path"]) == (422, "$.ids[1]")
    assert missing.json["message"] == "object missing required field weight"
    schemas = document["components"]["schemas"]
    assert schemas["Tokens"]["properties"]["ids"]["items"]["type"] == "integer"
    kinds = [each["type"] for each in schemas["Reading"]["properties"]["length"]["anyOf"]]
    assert sorted(kinds) == ["array", "integer"]
    sent = document["paths"]["/sums"]["post"]["requestBody"]["content"]["application/json"]
    assert (sent["schema"]["minItems"], sent["schema"]["maxItems"]) == (2, 2)


async def test_items_of_several_shapes_in_a_process():
    """No shape is declared: those of each shape share a call; in the program it is the same."""
    async with client_of(apart) as client:
        bodies = [[1], [1, 2], [[3]], [4]]
        answers = await asyncio.gather(*(client.post("/scaled", body) for body in bodies))
        assert [answer.json for answer in answers] == [[3], [3, 6], [[9]], [12]]
        assert (await apart["/scaled"](np.array([5]))).tolist() == [15]


def test_a_handler_without_an_argument_for_lengths():
    """A second argument of another name is no lengths, and there is nothing to give for it."""

    def handler(x: NDArray[np.float32], temperature: float) -> NDArray[np.float32]: ...

    with pytest.raises(TypeError, match="expected a handler of"):
        service.endpoint("/temperature")(handler)
