"""Costs for traffic that has none: drawn by lot, as lengths of texts are spread."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf, isfinite
from typing import Literal

import numpy as np

from adaptive_batching.simulation.traffic.arrivals import Times
from adaptive_batching.units import parse_share

_BLOCK = 4096  # lots at a time
_STREAM = 12  # arrivals and workers made with the same seed must not share our random numbers
_WIDEST = 10  # sigma: the mean would be e^50 times the median; a percentage was meant


@dataclass(frozen=True, slots=True)
class Lognormal:
    """Many small costs and few large ones.

    Attributes:
        median: Half of the costs are below it.
        sigma: Standard deviation of their natural logarithms; 0 for costs that are all alike.
        most: What costs more is cut to that, as models cut texts.
    """

    median: float
    sigma: float
    most: float = inf

    def __post_init__(self) -> None:
        if not (0 < self.median < inf and 0 <= self.sigma <= _WIDEST and self.most > 0):
            expected = f"a positive median and most, and a sigma of 0 to {_WIDEST}"
            raise ValueError(f"lognormal costs: expected {expected}, got {self}")

    def __str__(self) -> str:
        cut = "" if self.most == inf else f",{self.most:g}"
        return f"lognormal:{self.median:g},{self.sigma:g}{cut}"

    def draw(self, rng: np.random.Generator, number: int) -> Times:
        """So many of them."""
        return np.minimum(self.median * rng.lognormal(0.0, self.sigma, number), self.most)


@dataclass(frozen=True, slots=True)
class Bimodal:
    """Two costs.

    Attributes:
        usual: One of them.
        other: The other one.
        share: How many have that, of 1.
    """

    usual: float
    other: float
    share: float

    def __post_init__(self) -> None:
        costs = (self.usual, self.other)
        if not (all(isfinite(cost) and cost >= 0 for cost in costs) and 0 <= self.share <= 1):
            expected = "two finite costs of 0 or more and a share of 0 to 100%"
            raise ValueError(f"bimodal costs: expected {expected}, got {self}")

    def __str__(self) -> str:
        return f"bimodal:{self.usual:g},{self.other:g},{self.share * 100:g}%"

    def draw(self, rng: np.random.Generator, number: int) -> Times:
        """So many of them."""
        return np.where(rng.random(number) < self.share, self.other, self.usual)


@dataclass(frozen=True, slots=True)
class DrawnCosts:
    """Without end, and the same ones each time they are drawn.

    Attributes:
        law: How they are spread.
        seed: Of the random numbers.
    """

    law: Lognormal | Bimodal
    seed: int = 0

    def __str__(self) -> str:
        return f"costs {self.law}"

    def __iter__(self) -> Iterator[float]:
        rng = np.random.default_rng([_STREAM, self.seed])
        while True:
            yield from self.law.draw(rng, _BLOCK).tolist()


def parse_costs(text: str) -> DrawnCosts | Literal["recorded", "tokens"]:
    """Read `lognormal:120,0.8`, `bimodal:16,320,20%`, `recorded` or `tokens`.

    Raises:
        ValueError: It is none of these.
    """
    if text == "recorded":
        return "recorded"
    if text == "tokens":
        return "tokens"
    if match := _LOGNORMAL.fullmatch(text):
        median, sigma, most = match.groups()
        return DrawnCosts(Lognormal(float(median), float(sigma), float(most or inf)))
    if match := _BIMODAL.fullmatch(text):
        usual, other, share = match.groups()
        return DrawnCosts(Bimodal(float(usual), float(other), parse_share(share)))
    expected = "recorded, tokens, lognormal:MEDIAN,SIGMA[,MOST] or bimodal:COST,OTHER,SHARE%"
    raise ValueError(f"expected {expected}, such as lognormal:120,0.8, got {text!r}")


_NUMBER = r"([0-9]{1,18}(?:\.[0-9]{1,18})?)"
_LOGNORMAL = re.compile(rf"lognormal:{_NUMBER},{_NUMBER}(?:,{_NUMBER})?")
_BIMODAL = re.compile(rf"bimodal:{_NUMBER},{_NUMBER},([0-9.]+%)")
