"""`.npy` bodies, of which nothing is believed that is not there.

NumPy's own reader would allocate what the header announces before it looks for the data.
"""

import math
from io import BytesIO
from typing import Any

import numpy as np
from numpy.lib import format as npy

from adaptive_batching.errors import MalformedBody
from adaptive_batching.payloads.arrays.marks import NUMBERS

_MAX_HEADER = 4096  # bytes; that of an array of numbers has some 80
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def load(body: bytes) -> Any:
    """Read an array of numbers, which may be written to.

    Raises:
        MalformedBody: It is none, or holds more or less than its header says.
    """
    stream = BytesIO(body)
    try:
        read_header = _HEADERS[npy.read_magic(stream)]
        shape, fortran, dtype = read_header(stream, max_header_size=_MAX_HEADER)
    except Exception as error:  # noqa: BLE001  the header is Python's syntax, and fails as that
        raise MalformedBody(f"no header of .npy: {type(error).__name__}: {error}") from None
    if dtype.kind not in NUMBERS:
        raise MalformedBody(f"expected an array of numbers, got one of {dtype}")
    there, announced = len(body) - stream.tell(), math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or there != announced:
        raise MalformedBody(f"expected {announced} bytes of data for shape {shape}, got {there}")
    try:
        flat = np.frombuffer(bytearray(body), dtype, offset=stream.tell())
        return flat.reshape(shape, order="F" if fortran else "C")
    except (ValueError, OverflowError) as error:  # more dimensions, or longer ones, than can be
        raise MalformedBody(f"an array of shape {shape}: {error}") from None


def dump(array: Any) -> bytes:
    """Write an array.

    Raises:
        ValueError: It holds objects.
    """
    stream = BytesIO()
    npy.write_array(stream, np.asanyarray(array), version=(1, 0), allow_pickle=False)
    return stream.getvalue()


def stacked(arrays: Any) -> bytes:
    """Write arrays of one shape as the rows of one; no array is a row of no numbers."""
    return dump(np.stack(arrays) if arrays else np.empty(0))
