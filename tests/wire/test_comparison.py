"""Two answers to one request say the same, or they don't."""

import base64
import json
import struct

import msgspec
import pytest

from adaptive_batching.wire.comparison import same
from adaptive_batching.wire.exchange import Message


def of_json(value):
    return Message(json.dumps(value).encode(), {"content-type": "application/json"})


def of_tensor(*numbers, datatype="FP32", kind="f"):
    data = struct.pack(f"<{len(numbers)}{kind}", *numbers)
    output = {
        "name": "y",
        "datatype": datatype,
        "shape": [1, len(numbers)],
        "parameters": {"binary_data_size": len(data)},
    }
    text = json.dumps({"id": str(numbers), "outputs": [output]}).encode()
    return Message(text + data, {"inference-header-content-length": str(len(text))})


def of_embedding(*numbers):
    data = base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()
    return of_json({"data": [{"embedding": data}]})


def of_msgpack(value):
    return Message(msgspec.msgpack.encode(value), {"content-type": "application/msgpack"})


def of_outputs(outputs, tail=b"tail"):
    text = json.dumps({"outputs": outputs}).encode()
    return Message(text + tail, {"inference-header-content-length": str(len(text))})


DEEP = Message(b"[" * 900 + b"]" * 900)
BROKEN = [
    of_outputs(7),
    of_outputs([7]),
    of_outputs([{"parameters": None}]),
    of_outputs([{"parameters": {"binary_data_size": "4"}}]),
    of_outputs([{"parameters": {"binary_data_size": 3}, "datatype": "FP32"}]),
    Message(b"{}tail", {"inference-header-content-length": "2"}),
    Message(b"\x81\x80\x01", {"content-type": "application/msgpack"}),
]
SAME = [
    *((each, each) for each in [DEEP, *BROKEN]),
    (of_json({"predictions": [1.0, 1e-9]}), of_json({"predictions": [1.0005, -1e-9]})),
    (of_json({"predictions": [float("nan")]}), of_json({"predictions": [float("nan")]})),
    (of_json({"id": "a", "outputs": []}), of_json({"id": "b", "outputs": []})),
    (of_json([1, "cat", None, True]), of_json([1, "cat", None, True])),
    (of_json([1]), of_json([1.0])),
    (of_tensor(1.0, 2.0), of_tensor(1.0001, 2.0)),
    (of_embedding(0.5, -0.5), of_embedding(0.50001, -0.5)),
    (of_msgpack([0.5]), of_msgpack([0.50001])),
    (Message(b"no JSON"), Message(b"no JSON")),
]
DIFFERENT = [
    (of_json([1.0]), of_json([1.01])),
    (of_json([7]), of_json([8])),
    (of_json([1.0]), of_json([1.0, 1.0])),
    (of_json({"a": 1}), of_json({"b": 1})),
    (of_json(["cat"]), of_json(["dog"])),
    (of_json([1]), of_json([True])),
    (of_json([None]), of_json([float("nan")])),
    (of_json([1.0]), of_json([float("nan")])),
    (of_tensor(1.0, 2.0), of_tensor(2.0, 1.0)),
    (of_tensor(1, datatype="INT32", kind="i"), of_tensor(2, datatype="INT32", kind="i")),
    (of_embedding(0.5), of_embedding(0.6)),
    (of_json([1]), Message(b"[1")),
    (of_json(["süß"]), of_json(["sauer"])),
    (of_json([10**400]), of_json([1.5])),
    (DEEP, Message(DEEP.body.replace(b"[]", b"[1]"))),
    *((each, of_tensor(1.0)) for each in BROKEN),
]


@pytest.mark.parametrize("pair", SAME)
def test_the_same(pair):
    """But for the last digits, and for what the answer is called."""
    assert same(*pair, 1e-3)
    assert same(*reversed(pair), 1e-3)


@pytest.mark.parametrize("pair", DIFFERENT)
def test_not_the_same(pair):
    """A class, a length or a name is never nearly equal."""
    assert not same(*pair, 1e-3)
    assert not same(*reversed(pair), 1e-3)
