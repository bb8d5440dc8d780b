"""Two models: TensorFlow Serving's own example, and one with two inputs of other types."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tests.real_servers.tensorflow_serving.tensors import StatusError, Tensor, invalid


@dataclass(frozen=True)
class Model:
    """What is loaded.

    Attributes:
        versions: From each to what it makes of named tensors.
        labels: Of versions.
        types: Of the inputs of `serving_default`.
        examples: Signatures of `classify` and `regress`.
    """

    versions: dict[int, Callable]
    labels: dict[str, int]
    types: dict[str, str]
    outputs: dict[str, str]
    examples: dict[str, str] = field(default_factory=dict)


def _over_floats(function):
    def run(tensors):
        x = tensors["x"]
        refuse(x.values)
        with np.errstate(all="ignore"):
            return {"y": Tensor(x.shape, [function(value) for value in x.values])}

    return run


def refuse(values):
    """What graphs do to a whole batch."""
    if np.float32(-13) in values:
        raise invalid("assertion failed: [x must not be -13] [[{{node Assert}}]]")
    if np.float32(-17) in values:
        raise StatusError(500, "Blas GEMM launch failed [[{{node MatMul}}]]")


def half_plus_two(value):
    return np.float32(value / np.float32(2) + np.float32(2))


def _turned(tensors):
    key, text = tensors["key"], tensors["text_bytes"]
    if len(key.values) != len(text.values):
        raise invalid("Incompatible shapes [[{{node join}}]]")
    return {
        "key": Tensor(key.shape, [-each for each in key.values]),
        "text_bytes": Tensor(text.shape, [each[::-1] for each in text.values]),
    }


_TWO = {"key": "int64", "text_bytes": "string"}
MODELS = {
    "half_plus_two": Model(
        {1: _over_floats(half_plus_two), 2: _over_floats(np.log)},
        {"stable": 1, "canary": 2},
        {"x": "float"},
        {"y": "float"},
        {"classify_x_to_y": "classify", "regress_x_to_y": "regress"},
    ),
    "turned": Model({7: _turned}, {}, _TWO, _TWO),
}
