"""What a batch takes longer because of what its items cost."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite

from adaptive_batching.core import Job, next_allowed
from adaptive_batching.units import parse_duration

_TERM = re.compile(r"(?P<duration>[^/]+)/(?P<unit>[A-Za-z]+)(?P<square>\^2)?")


@dataclass(frozen=True, slots=True)
class CostSeconds:
    """Seconds that the costs of its items add to a batch, whether or not a scheduler knows them.

    Attributes:
        per_cost: For each unit of the batch's cost; see `Costs`.
        per_square: For each square of a unit: what attention takes grows so with the tokens.
        padded: Whether each item takes as long as the costliest of its batch.
        sizes: Batches are filled up to the next of these sizes with items like theirs; increasing.
    """

    per_cost: float
    per_square: float = 0.0
    padded: bool = False
    sizes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("per_cost", "per_square"):
            value = getattr(self, name)
            if not (isfinite(value) and value >= 0):
                raise ValueError(f"{name}: expected a finite number of 0 or more, got {value}")

    def __call__(self, jobs: Sequence[Job]) -> float:
        """Seconds for a batch of these jobs."""
        size = sum([job.size for job in jobs])
        filled = next_allowed(self.sizes, size)
        if self.padded:
            largest = max([job.cost for job in jobs])
            return filled * largest * (self.per_cost + self.per_square * largest)
        seconds = self.per_cost * sum([job.cost for job in jobs])
        if self.per_square:  # the items of a job are taken to be alike
            seconds += self.per_square * sum([job.cost**2 / job.size for job in jobs])
        return seconds * filled / size


def parse_cost_seconds(terms: Iterable[str]) -> CostSeconds | None:
    """Read `2us/token` and `1ns/token^2`; None if there are no terms.

    Raises:
        ValueError: A term is something else, there are two alike, or their units differ.
    """
    known: dict[bool, float] = {}
    units: set[str] = set()
    for term in terms:
        match = _TERM.fullmatch(term)
        square = match is not None and match["square"] is not None
        if match is None or square in known or units - {match["unit"]}:
            expected = "2us/token, and 1ns/token^2 if it is quadratic, with one unit"
            raise ValueError(f"expected {expected}, got {term!r}")
        known[square] = parse_duration(match["duration"])
        units.add(match["unit"])
    return CostSeconds(known.get(False, 0.0), known.get(True, 0.0)) if known else None
