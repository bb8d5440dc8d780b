"""The model: a random forest that reads handwritten digits, trained on what scikit-learn brings.

Six hundred trees cost about the same for one image as for sixty-four: what a batch saves is the
walk through the forest's Python code, as it is a kernel launch on a GPU.
"""

import time
from typing import NamedTuple

import numpy as np
from scipy import stats
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

_TREES = 600
_ROUNDS = 15  # the shortest counts: whatever else the machine does can only add to it
_SIZES = (1, 4, 16, 64)


class BatchDuration(NamedTuple):
    """Duration of a batch: `fixed + per_item * size`, in seconds."""

    fixed: float
    per_item: float

    def of(self, size: int) -> float:
        """Seconds that a batch of so many items takes."""
        return self.fixed + self.per_item * size

    def most_per_second(self, size: int) -> float:
        """Items that one worker answers in a second, in batches of so many."""
        return size / self.of(size)


class Digits:
    """Reads a batch of 8 x 8 images, each given as its 64 brightnesses."""

    def __init__(self) -> None:
        images, labels = load_digits(return_X_y=True)
        # One seed, so that every worker has the same forest, and the check of their answers too.
        self._forest = RandomForestClassifier(_TREES, random_state=0, n_jobs=1)
        self._forest.fit(images, labels)

    def __call__(self, images: list[list[float]]) -> list[int]:
        """The digit on each image."""
        digits: list[int] = self._forest.predict(np.asarray(images)).tolist()
        return digits

    def warmup(self) -> None:
        """Bring its trees into the caches before the first request is waiting."""
        self([[0.0] * 64])


def images() -> list[list[float]]:
    """All images, as a client would send them."""
    loaded: list[list[float]] = load_digits(return_X_y=True)[0].tolist()
    return loaded


def measure(model: Digits, samples: list[list[float]]) -> BatchDuration:
    """Time the model itself, with nothing around it, at a few batch sizes by turns."""
    rounds = [[_timed(model, samples[:size]) for size in _SIZES] for _ in range(_ROUNDS)]
    line = stats.linregress(_SIZES, np.min(rounds, axis=0))
    return BatchDuration(float(line.intercept), float(line.slope))


def _timed(model: Digits, batch: list[list[float]]) -> float:
    begin = time.perf_counter()
    model(batch)
    return time.perf_counter() - begin
