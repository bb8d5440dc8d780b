"""What a handler may return: as many results as there were items, in their order."""

from collections.abc import Sequence
from typing import Any

from adaptive_batching.errors import BatchFunctionError


def check_results(value: object, expected: int) -> Sequence[Any]:
    """Return `value` as a sequence of `expected` results; arrays become lists of their rows.

    Raises:
        BatchFunctionError: It is none, or has another length.
    """
    results = value if type(value) is list else as_sequence(value, expected)
    if len(results) != expected:
        msg = f"expected {expected} results for a batch of {expected}, got {len(results)}"
        raise BatchFunctionError(msg)
    return results


def as_sequence(value: object, expected: int) -> Sequence[Any]:
    """Return a list or tuple as it is, another sequence as a list, an array as that of its rows.

    Raises:
        BatchFunctionError: It is neither.
    """
    if isinstance(value, list | tuple):
        return value
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray | memoryview):
        return list(value)  # its length is what it holds, whatever it says
    if hasattr(value, "__array__"):
        array = value.__array__()  # a data frame iterates over its columns, its array over rows
        if array.ndim:
            return list(array)
    msg = f"expected a list of {expected} results, got {type(value).__qualname__}"
    raise BatchFunctionError(msg)
