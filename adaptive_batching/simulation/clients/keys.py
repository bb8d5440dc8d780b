"""Batch keys for traffic that has none: drawn by lot, all alike or the first far more often."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Literal

import numpy as np

_BLOCK = 4096  # lots at a time
_STREAM = 7  # arrivals and workers made with the same seed must not share our random numbers
_MOST = 10_000


@dataclass(frozen=True, slots=True)
class Lots:
    """Without end, and the same ones each time they are drawn.

    Attributes:
        keys: How many there are: the numbers from 0.
        exponent: Of Zipf's law: the nth key comes with a probability like `1 / n ** exponent`; with
            0 all of them come alike.
        seed: Of the random numbers.
    """

    keys: int
    exponent: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.keys <= _MOST:
            raise ValueError(f"keys: expected 1 to {_MOST:,} of them, got {self.keys}")
        if not (isfinite(self.exponent) and self.exponent >= 0):
            raise ValueError(f"keys: expected an exponent of 0 or more, got {self.exponent}")

    def __str__(self) -> str:
        return f"{self.keys} keys{f' by Zipf^{self.exponent:g}' if self.exponent else ''}"

    def __iter__(self) -> Iterator[int]:
        rng = np.random.default_rng([_STREAM, self.seed])
        shares = np.arange(1.0, self.keys + 1) ** -self.exponent
        shares /= shares.sum()
        while True:
            yield from rng.choice(self.keys, _BLOCK, p=shares).tolist()


def parse_keys(text: str) -> Lots | Literal["recorded"]:
    """Read `8`, `zipf:8`, `zipf:8:1.2` or `recorded`.

    Raises:
        ValueError: It is none of these.
    """
    if text == "recorded":
        return "recorded"
    match = _LAW.fullmatch(text)
    if match is None:
        expected = "recorded, a number of keys such as 8, or zipf:8 or zipf:8:1.2"
        raise ValueError(f"expected {expected}, got {text!r}")
    law, keys, exponent = match.groups()
    return Lots(int(keys), float(exponent or 1.0) if law else 0.0)


_LAW = re.compile(r"(zipf:)?([0-9]{1,9})(?(1)(?::([0-9]+(?:\.[0-9]+)?))?)")
