"""JSON with nothing beyond the standard."""

import pickle
from dataclasses import dataclass
from math import inf, nan

import numpy as np
import pytest

from adaptive_batching.errors import MalformedBody
from adaptive_batching.wire.strict_json import decode, encode

MALFORMED = {
    "NaN": b"NaN",
    "a NaN inside": b"[1, NaN]",
    "Infinity": b"-Infinity",
    "beyond a double": b"1e999",
    "bad UTF-8 in a string": b'"\xff"',
    "bad UTF-8 outside": b"\xff",
    "a lone surrogate": b'"\\ud800"',
    "nested without end": b"[" * 100_000,
    "nested too deep": b"[" * 100_000 + b"]" * 100_000,
    "a huge integer": b"1" * 5000,
    "nothing": b"",
    "only space": b" \n",
    "a byte order mark": b"\xef\xbb\xbf1",
    "two values": b"1 2",
    "garbage after a value": b"{}\x00",
    "a comma too many": b"[1,]",
    "single quotes": b"{'a': 1}",
    "a leading zero": b"01",
    "a pickle": pickle.dumps([1, 2, 3]),
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
def test_malformed_is_refused(body):
    """Whatever is not JSON is one kind of error, with the status of a client's mistake."""
    with pytest.raises(MalformedBody) as refusal:
        decode(body)
    assert (refusal.value.status, refusal.value.code) == (400, "malformed")


def test_the_error_survives_pickling():
    """It travels from the worker process to the service."""
    error = pickle.loads(pickle.dumps(MalformedBody("truncated")))
    assert type(error) is MalformedBody
    assert str(error) == "truncated"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"label": "seven", "score": 0.5, "more": [None, True]}, None),
        (np.float64(0.5), b"0.5"),
        (np.float32(0.5), b"0.5"),
        (np.int64(3), b"3"),
        (np.bool_(1), b"true"),
        (np.array([[1, 2], [3, 4]]), b"[[1,2],[3,4]]"),
        ({"scores": np.array([0.25, 0.75]), "top": np.int8(1)}, b'{"scores":[0.25,0.75],"top":1}'),
        ("null and void", b'"null and void"'),
    ],
    ids=repr,
)
def test_what_can_be_written(value, expected):
    """Plain values and NumPy's, also inside; what is plain reads back equal."""
    encoded = encode(value)
    assert encoded == expected if expected else decode(encoded) == value


@dataclass
class Scores:
    best: float


@pytest.mark.parametrize(
    "value",
    [nan, inf, [None, {"a": (1.0, -inf)}], np.array([1.0, nan]), np.float32(nan), Scores(nan)],
    ids=repr,
)
def test_no_nan_becomes_null(value):
    """A value that JSON can't say is an error, not silently something else."""
    with pytest.raises(ValueError, match="no form in JSON"):
        encode(value)


def test_what_json_has_no_form_for():
    """The message names the type, or the loop."""
    with pytest.raises(TypeError, match="no form for object"):
        encode([object()])
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(ValueError, match="contains itself"):
        encode(loop)
    with pytest.raises(ValueError, match="surrogates"):
        encode("\ud800")
