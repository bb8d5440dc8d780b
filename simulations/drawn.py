"""Which rows of its tables a simulation computes: all, or some of them that a seed draws.

A script without arguments computes all, which is what its .out file shows. With a seed as argument
it computes a sixth at most: the rows are independent, so each one is to the last digit what it is
among all of them. The tests draw others in each run.
"""

import sys
from collections.abc import Iterable
from random import Random
from typing import TypeVar

T = TypeVar("T")

_random = Random(sys.argv[1]) if len(sys.argv) > 1 else None  # noqa: S311  (no secret)


def drawn(rows: Iterable[T]) -> list[T]:
    """All rows, or one at least and a sixth of them at most, in their order."""
    known = list(rows)
    if _random is None:
        return known
    chosen = _random.sample(range(len(known)), max(1, len(known) // 6))
    return [known[index] for index in sorted(chosen)]
