"""Which sizes of batches a handler takes, and what fills up the others, as a program says it."""

from collections.abc import Callable, Sequence
from typing import Any

from adaptive_batching.core import Limits
from adaptive_batching.errors import SettingError
from adaptive_batching.units import plain_number
from adaptive_batching.workers.handler.handler import is_async
from adaptive_batching.workers.handler.padding import Padding
from adaptive_batching.workers.handler.results import sequence_of

Pad = Callable[[Any], Any]
"""Takes the last item of a batch, and returns what the batch is filled up with."""


def make_sizes(sizes: object) -> tuple[int, ...]:
    """The sizes that a program lists, empty for None; `Limits` says whether they can be such.

    Raises:
        TypeError: It is no list.
        ValueError: It is empty.
    """
    if sizes is None:
        return ()
    listed = sequence_of(sizes)
    expected = "sizes: expected a list of whole numbers of items, such as [1, 2, 4, 8]"
    if listed is None:
        raise TypeError(f"{expected}, got {sizes!r}")
    if not listed:
        raise ValueError(f"{expected}, or None for any size, got {sizes!r}")
    return tuple(map(plain_number, listed))


def largest_batch(max_batch_size: int | None, sizes: Sequence[int], default: int = 64) -> int:
    """Items in a batch at the most: any of the sizes, where there are sizes.

    Args:
        max_batch_size: What is said of it; None for the largest size.
        sizes: That are allowed; empty if all are.
        default: Items where nothing at all is said.

    Raises:
        SettingError: It is none of the sizes.
    """
    if max_batch_size is None:
        return sizes[-1] if sizes else default
    if sizes and max_batch_size not in sizes:
        expected = f"expected one of sizes={list(sizes)}, or to be left out beside them"
        raise SettingError("max_batch_size", f"{expected}, got {max_batch_size!r}")
    return max_batch_size


def make_padding(limits: Limits, pad: object) -> Padding | None:
    """What fills a handler's batches up; None if it takes batches of any size.

    Raises:
        TypeError: `pad` is no plain function.
        ValueError: There is one, and there are no sizes to fill up to.
    """
    if pad is not None and (not callable(pad) or is_async(pad)):
        expected = "expected a plain function of the last item that returns what fills a batch up"
        raise TypeError(f"pad: {expected}, such as np.zeros_like, got {pad!r}")
    if limits.sizes:
        return Padding(limits, pad)
    if pad is not None:
        expected = "expected sizes=[...], which say what batches are filled up to"
        raise ValueError(f"pad: {expected}, beside it, got pad={pad!r} alone")
    return None
