"""The sidecar before a server that follows TensorFlow Serving's REST API to the letter."""

import base64
import math
import os
import socket
import sys
from dataclasses import replace

import pytest

from tests.real_servers.comparison import check
from tests.real_servers.processes import serving, sidecar
from tests.real_servers.traffic import JSON, KEYS, Asked, Traffic, posted
from tests.real_servers.visits import Visit, plan, tell

COUNT = int(os.environ.get("REAL_SERVERS_REQUESTS", "300"))
HALF = "/v1/models/half_plus_two"
WHICH = ["", "/versions/1", "/labels/stable", "/versions/2", "/labels/canary"]


@pytest.fixture
async def upstream(tmp_path):
    """Where it listens, in a process of its own."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    url, log = f"http://127.0.0.1:{port}", tmp_path / "server.log"
    command = [sys.executable, "-m", "tests.real_servers.tensorflow_serving", port]
    async with serving(command, url, HALF, log):
        yield url


def numbers(random):
    values = [random.randint(-4000, 4000) + 0.5 for _ in range(rows(random))]
    return [random.choice([0.0, math.nan]) if random.random() < 0.02 else each for each in values]


def rows(random):
    # one in twenty is larger than a batch
    return 40 if random.random() < 0.05 else random.randint(1, 4)


def predict(random, instances=None):
    """Of the first version half and two, of the second logarithms: `NaN`, and `-Infinity` of 0."""
    body = {"instances": instances or numbers(random)}
    if random.random() < 0.2:
        body["signature_name"] = "serving_default"
    return posted(f"{HALF}{random.choice(WHICH)}:predict", body)


def pairs(random):
    """Another shape: fine by itself, but the server takes no batch of both."""
    return predict(random, [[each, each] for each in numbers(random)])


def turned(random):
    """Integers beyond what floats hold, and bytes."""
    items = [
        {"key": random.randint(-(2**61), 2**61), "text_bytes": {"b64": encoded(random)}}
        for _ in range(rows(random))
    ]
    return posted("/v1/models/turned:predict", {"instances": items})


def encoded(random):
    return base64.b64encode(random.randbytes(random.randint(0, 9))).decode()


def in_columns(random):
    """The same two models, asked in the other notation."""
    if random.random() < 0.5:
        return posted(f"{HALF}:predict", {"inputs": numbers(random)})
    count = rows(random)
    keys = [random.randint(-(2**61), 2**61) for _ in range(count)]
    texts = [{"b64": encoded(random)} for _ in range(count)]
    inputs = {"key": keys, "text_bytes": texts}
    return posted("/v1/models/turned:predict", {"inputs": inputs})


def examples(random, values=None):
    """To classify or regress, some with a context."""
    verb = random.choice(["classify", "regress"])
    body = {
        "signature_name": f"{verb}_x_to_y",
        "examples": [{"x": [value]} for value in values or numbers(random)],
    }
    if random.random() < 0.3:
        body["context"] = {"b": random.choice([0.5, 2.5])}
    return posted(f"{HALF}:{verb}", body)


def fine(random):
    kinds = [predict, turned, in_columns, examples, pairs]
    (kind,) = random.choices(kinds, weights=[40, 20, 15, 22, 3])
    return kind(random).by(random.choice(KEYS))


def poisoned(random):
    """Refused by the model for the whole batch, or before it with the place of the item.

    None is larger than a batch: an error of a piece tells the place in the piece.
    """
    poison = random.choice([-13.0, -17.0, "a string", None, [[]], 1e39])
    values = [*numbers(random)[:3], poison]
    random.shuffle(values)
    asked = (examples if isinstance(poison, float) and random.random() < 0.3 else predict)(
        random, values
    )
    return asked.by(random.choice(KEYS))


def of_half(body, verb="predict"):
    return posted(f"{HALF}:{verb}", body)


ASIDE = (
    Asked(HALF, method="GET"),
    Asked(f"{HALF}/versions/2", method="GET"),
    Asked(f"{HALF}/metadata", method="GET"),
    Asked(f"{HALF}:predict", method="GET"),
    Asked("/v1/models", method="GET"),
    Asked("/v1/models/unknown", method="GET"),
    Asked("/elsewhere", method="GET"),
    posted("/v1/models/unknown:predict", {"instances": [1.0]}),
    posted(f"{HALF}/versions/9:predict", {"instances": [1.0]}),
    posted(f"{HALF}/labels/none:predict", {"instances": [1.0]}),
    posted(f"{HALF}/versions/one:predict", {"instances": [1.0]}),
    Asked(f"{HALF}:predict", b"", JSON),
    Asked(f"{HALF}:predict", b"instances = [1, 2]", JSON),
    of_half({"instances": []}),
    of_half({"instances": [1.0], "inputs": [1.0]}),
    of_half({"instances": 1.0}),
    of_half({}),
    of_half({"instances": [1.0], "signature_name": "other"}),
    of_half({"instances": [1.0], "signature_name": 1}),
    of_half({"inputs": 3.0}),
    of_half({"examples": []}, "classify"),
    of_half({"examples": [{"x": 1.0}]}, "regress"),
    posted("/v1/models/turned:predict", {"instances": [1, 2]}),
    posted("/v1/models/turned:predict", {"instances": [{"key": 1}]}),
    posted("/v1/models/turned:predict", {"inputs": {"key": [1, 2], "text_bytes": ["a"]}}),
)


@pytest.mark.parametrize("protocol", ["tensorflow", "tensorflow-columns"])
async def test_answers_are_those_of_the_server(protocol, upstream, tmp_path):
    """Rows and columns, classes and regressions, and each error with its status and its words."""
    visits = plan(Traffic(fine, poisoned, ASIDE), COUNT)
    options = (f"--protocol={protocol}", "--max-batch-size=32")
    async with sidecar(upstream, options, tmp_path / "sidecar.log") as url:
        through = await tell(url, visits)
    direct = await tell(upstream, [replace(each, leaves=None) for each in visits])
    check(visits, through, direct, share=0.1)


KNOWN = {
    b'{"instances": [1.0, 2.0, 5.0]}': '{\n    "predictions": [2.5, 3.0, 4.5\n    ]\n}',
    b'{"inputs": [3.0]}': '{\n    "outputs": [\n        3.5\n    ]\n}',
    b"": '{\n    "error": "JSON Parse error: The document is empty"\n}',
}


async def test_what_the_real_one_is_known_to_answer(upstream):
    """To the last space, line ends within lists included."""
    visits = [Visit(Asked(f"{HALF}:predict", body, JSON), "fine", None) for body in KNOWN]
    told = await tell(upstream, visits)
    assert [each.body.decode() for each in told] == [*KNOWN.values()]
    assert [each.status for each in told] == [200, 200, 400]
