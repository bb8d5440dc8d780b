"""Handlers of models that were compiled for a few sizes, for worker processes to import."""

import time
from typing import Annotated

import numpy as np

from adaptive_batching import Service
from adaptive_batching.payloads.arrays.marks import DType, Padded, Shape

Row = Annotated[np.ndarray, Shape(3), DType("float64")]
Wave = Annotated[np.ndarray, Shape(None), DType("float64"), Padded(axis=0)]


class Seen:
    """Returns how many items its batches had, and takes each item by itself before and after."""

    def __init__(self) -> None:
        self.preprocessed = 0

    def preprocess(self, item: str) -> str:
        self.preprocessed += 1
        if item == "bad":
            raise ValueError(item)
        return item.upper()

    def __call__(self, items: list[str]) -> list[tuple[str, int]]:
        return [(item, len(items)) for item in items]

    def postprocess(self, result: tuple[str, int]) -> tuple[str, int, int]:
        return (*result, self.preprocessed)


class Recompiles:
    """Takes 300 ms for the first batch of each size, as a compiler does; then 5 ms.

    Its answers tell the requests that met such a batch: they get None instead of their item.
    """

    def __init__(self) -> None:
        self.compiled: set[int] = set()

    def __call__(self, items: list[int]) -> list[int | None]:
        new = len(items) not in self.compiled
        self.compiled.add(len(items))
        time.sleep(0.3 if new else 0.005)
        return [None if new else item for item in items]


recompiling = Service("recompiling")
recompiling.endpoint("/same", sizes=[1, 2, 4, 8, 16], examples=[0])(Recompiles)


def rows(x: Row) -> np.ndarray:
    """Each row's sum, and how many rows there are."""
    return np.stack([x.sum(axis=1), np.full(len(x), len(x))], axis=1)


def waves(x: Wave) -> np.ndarray:
    """Each wave's sum, and how many there are of what length."""
    return np.stack([x.sum(axis=1), np.full(len(x), len(x)), np.full(len(x), x.shape[1])], axis=1)


def named(x: dict[str, Row]) -> dict[str, np.ndarray]:
    """Each row's sum, by name, and how many rows there are."""
    return {name: each.sum(axis=1) + 100 * len(each) for name, each in x.items()}


def exclaim(_last: str) -> str:
    """What fills batches of texts up."""
    return "!"


def count(items: list[str]) -> list[tuple[str, ...]]:
    """Return the whole batch for each item."""
    return [tuple(items)] * len(items)
