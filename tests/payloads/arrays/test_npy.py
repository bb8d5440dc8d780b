"""`.npy` bodies, of which nothing is believed."""

from contextlib import suppress
from io import BytesIO

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adaptive_batching.errors import InvalidItem, MalformedBody
from adaptive_batching.payloads.arrays.array_type import ArrayType
from adaptive_batching.payloads.arrays.marks import DType
from adaptive_batching.payloads.arrays.npy import dump, load


def saved(array, **how):
    stream = BytesIO()
    np.save(stream, array, **how)
    return stream.getvalue()


def headed(header: bytes, data: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype="float32").reshape(2, 3),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.zeros((0, 4)),
        np.float64(3.5),
        np.array([True, False]),
        np.arange(3, dtype=">i4"),
    ],
    ids=str,
)
def test_arrays_as_numpy_writes_them(array):
    """Read and written as NumPy does, and the handler may write to what it gets."""
    got = load(saved(array))
    np.testing.assert_array_equal(got, array)
    assert got.dtype == np.asarray(array).dtype
    assert got.flags.writeable
    np.testing.assert_array_equal(np.load(BytesIO(dump(array))), array)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x93NUMPY",
        b"\x93NUMPY\x03\x00\x00",
        saved(np.zeros(3))[:-1],
        saved(np.zeros(3)) + b"\0",
        saved(np.array([{}], dtype=object), allow_pickle=True),
        saved(np.array(["a"])),
        saved(np.zeros(2, dtype=[("a", "i4")])),
        headed(b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,)}"),
        headed(b"{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}", b"\0" * 8),
        headed(b"{'descr': '<f8', 'fortran_order': False, 'shape': (0, %d)}" % 10**300),
        headed(
            b"{'descr': '<f8', 'fortran_order': False, 'shape': (%s)}" % (b"1," * 99), b"\0" * 8
        ),
        headed(b"(" * 4000),
        headed(b"{'descr': " + b"[" * 3000),
        headed(b" " * 60_000),
        headed(b"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", b"cos\nsystem\n."),
        headed(b"{'descr': '<m8', 'fortran_order': False, 'shape': ()}", b"\0" * 8),
    ],
    ids=lambda body: repr(body[:40]),
)
def test_what_is_no_array_of_numbers(body):
    """Cut short, too long, of objects, or with a header that lies: nothing is allocated for it."""
    with pytest.raises(MalformedBody):
        load(body)


@given(st.binary(max_size=60), st.integers(0, 127), st.integers(0, 255))
@settings(max_examples=200)
@pytest.mark.filterwarnings("ignore")  # NumPy has something to say on headers of Python 2
def test_any_other_bytes(noise, place, byte):
    """They are an array, or malformed: nothing else is raised."""
    good = bytearray(saved(np.arange(3.0)))
    good[place] = byte
    for body in (noise, bytes(good), b"\x93NUMPY\x01\x00" + noise):
        with suppress(MalformedBody):
            assert isinstance(load(body), np.ndarray)


def test_the_declared_dtype():
    """Another one is refused; the order of bytes is no other dtype."""
    declared = ArrayType((3,), DType("float32").dtype)
    swapped = declared.check(np.arange(3, dtype=">f4"))
    assert swapped.dtype.isnative
    assert swapped.tolist() == [0, 1, 2]
    with pytest.raises(InvalidItem, match="expected dtype float32, got float64"):
        declared.check(np.zeros(3))
    with pytest.raises(InvalidItem, match=r"expected shape \(3\), got \(2, 3\)"):
        declared.check(np.zeros((2, 3), "float32"))
