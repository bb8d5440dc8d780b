"""What clients ask of a server: what can share a batch, what can't, and what is poison."""

import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

BINARY = "Inference-Header-Content-Length"
JSON = {"Content-Type": "application/json"}
KEYS = [{}, {"Authorization": "Bearer a"}, {"Authorization": "Bearer b", "X-Api-Key": "k"}]
"""Headers of clients who don't share batches with one another."""


@dataclass(frozen=True)
class Asked:
    """A request."""

    path: str
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    method: str = "POST"

    def by(self, who):
        """The same from another client."""
        return Asked(self.path, self.body, {**self.headers, **who}, self.method)


@dataclass(frozen=True)
class Traffic:
    """What a protocol's clients ask.

    Attributes:
        fine: From a random number generator to a request that could share a batch.
        poisoned: To one that the server refuses, though it looks like the others.
        aside: Requests that share no batch.
    """

    fine: Callable
    poisoned: Callable
    aside: Sequence[Asked]


def posted(path, value, **headers):
    """JSON."""
    return Asked(path, json.dumps(value).encode(), {**JSON, **headers})


def lists(path, fine, poison, *, wrap, aside):
    """Traffic of a protocol whose items are in a list.

    Args:
        path: Where they are posted.
        fine: From a random number generator to an item.
        poison: An item.
        wrap: From items to what is posted.
        aside: Requests that share no batch.
    """

    def some(random):
        # one in twenty is larger than a batch
        count = 40 if random.random() < 0.05 else random.randint(1, 4)
        return [fine(random) for _ in range(count)]

    def asked(random):
        return posted(path, wrap(some(random))).by(random.choice(KEYS))

    def poisoned(random):
        items = [fine(random) for _ in range(random.randint(0, 3))]
        items.insert(random.randint(0, len(items)), poison)
        return posted(path, wrap(items)).by(random.choice(KEYS))

    return Traffic(asked, poisoned, aside)


def tensors(*, binary):
    """Traffic of the Open Inference Protocol, in JSON or (also) as bytes."""

    def asked(random, poison=None):
        model = random.choice(["whole", "real", "text"])
        rows = 40 if poison is None and random.random() < 0.05 else random.randint(1, 4)
        values = [[_value(random, model) for _ in range(2)] for _ in range(rows)]
        if poison:
            values[random.randrange(rows)][1] = "poison" if model == "text" else -13
        as_bytes = binary and random.random() < 0.5
        message = (_in_bytes if as_bytes else _in_json)(random, model, values)
        return message.by(random.choice(KEYS))

    return Traffic(asked, lambda random: asked(random, poison=True), _TENSORS_ASIDE)


def _value(random, model):
    if model == "whole":
        return random.randint(-(2**61), 2**61)  # beyond what floats hold
    return random.randint(0, 2**12) / 8 if model == "real" else f"text {random.randint(0, 99)} ✓"


_TYPES = {"whole": ("INT64", "<i8"), "real": ("FP32", "<f4"), "text": ("BYTES", None)}


def _in_json(random, model, values):
    nested = random.random() < 0.5
    data = values if nested else [each for row in values for each in row]
    tensor = {"name": "x", "shape": [len(values), 2], "datatype": _TYPES[model][0], "data": data}
    return posted(f"/v2/models/{model}/infer", {**_named(random), "inputs": [tensor]})


def _in_bytes(random, model, values):
    datatype, dtype = _TYPES[model]
    if dtype:
        data = np.array(values, dtype).tobytes()
    else:
        texts = [text.encode() for row in values for text in row]
        data = b"".join(struct.pack("<I", len(text)) + text for text in texts)
    size = {"binary_data_size": len(data)}
    tensor = {"name": "x", "shape": [len(values), 2], "datatype": datatype, "parameters": size}
    parameters = {"parameters": {"binary_data_output": True}}
    text = json.dumps({**_named(random), **parameters, "inputs": [tensor]}).encode()
    headers = {BINARY: str(len(text)), "Content-Type": "application/octet-stream"}
    return Asked(f"/v2/models/{model}/infer", text + data, headers)


def _named(random):
    return {"id": f"id-{random.randint(0, 999)}"} if random.random() < 0.5 else {}


def _one(shape, data):
    tensor = {"name": "x", "shape": shape, "datatype": "INT64", "data": data}
    return {"id": "aside", "inputs": [tensor]}


_TENSORS_ASIDE = (
    Asked("/v2/health/ready", method="GET"),
    Asked("/v2/models/whole", method="GET"),
    posted("/v2/models/unknown/infer", _one([1, 2], [1, 2])),
    posted("/v2/models/whole/infer", _one([3, 2], [1, 2])),
    Asked("/v2/models/whole/infer", b"no JSON", JSON),
    Asked("/nowhere", method="GET"),
)
