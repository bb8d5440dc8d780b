"""The tenants of requests: drawn at random, each with its share of the traffic."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from math import isfinite
from typing import NamedTuple

import numpy as np

from adaptive_batching.core import Fairness, Priority

_BLOCK = 4096  # lots at a time
_STREAM = 11  # arrivals and workers made with the same seed must not share our random numbers


class Claim(NamedTuple):
    """The tenant of a request, and how urgent that tenant says it is."""

    tenant: Hashable
    priority: Priority = Priority.NORMAL


NOBODY = Claim(None)


class TenantTraffic(NamedTuple):
    """One tenant of the traffic.

    Attributes:
        name: In reports.
        part: Of the traffic, in proportion to the others'.
        weight: Of the workers that it may claim.
    """

    name: str
    part: float
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Crowd:
    """Claims without end, and the same ones each time they are drawn.

    Attributes:
        tenants: The senders of requests.
        high: Share of each one's requests that are of high priority.
        seed: Of the random numbers.
    """

    tenants: tuple[TenantTraffic, ...]
    high: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, part, weight in self.tenants:
            if not (isfinite(part) and isfinite(weight) and part > 0 and weight > 0):
                raise ValueError(f"tenants: expected positive numbers for {name}")
        if len({each.name for each in self.tenants}) < len(self.tenants):
            raise ValueError("tenants: expected different names")

    def __str__(self) -> str:
        return f"{len(self.tenants)} tenants"

    def __iter__(self) -> Iterator[Claim]:
        rng = np.random.default_rng([_STREAM, self.seed])
        parts = np.array([each.part for each in self.tenants])
        claims = [[Claim(each.name), Claim(each.name, Priority.HIGH)] for each in self.tenants]
        while True:
            whose = rng.choice(len(claims), _BLOCK, p=parts / parts.sum()).tolist()
            urgent = (rng.random(_BLOCK) < self.high).tolist()
            yield from (claims[one][high] for one, high in zip(whose, urgent, strict=True))

    def fairness(self, ageing: float | None = None) -> Fairness:
        """How they share the workers."""
        return Fairness({each.name: each.weight for each in self.tenants}, ageing)


def parse_tenants(text: str) -> Crowd:
    """Read `flood:0.9,quiet:0.1`; a third number is the weight.

    Raises:
        ValueError: It is nothing of that kind.
    """
    return Crowd(tuple(_tenant(each) for each in text.split(",")))


def _tenant(text: str) -> TenantTraffic:
    name, *numbers = text.split(":")
    if not name:
        raise ValueError(f"expected a name before each part, got {text!r}")
    try:
        return TenantTraffic(name, *map(float, numbers))
    except (TypeError, ValueError):
        raise ValueError(
            f"expected a tenant such as flood:0.9, or gold:1:3 with a weight, got {text!r}"
        ) from None
