"""Synthetic workers: how long a batch takes, with the jitter and the pauses of real machines."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np

from adaptive_batching.simulation.servers.costs import CostSeconds, parse_cost_seconds
from adaptive_batching.simulation.servers.curves import Curve, parse_table
from adaptive_batching.simulation.servers.runs import Condition, Durations, Situated
from adaptive_batching.units import parse_duration

Service = Curve | Situated
"""A worker: the size of a batch in items -> the seconds that it takes."""

_RUN = (
    8  # neighbouring batches: as long as another program typically disturbs (a tenth of a second)
)
_WILDEST = 10  # noise that may be a factor of 20,000 either way: a percentage was meant
_BLOCK = 4096  # draws at a time: a single draw costs as much as a hundred of a block
_STREAM = 1  # arrivals made with the same seed must not share our random numbers
_UNEVEN = 7  # the seeds of unlike workers must not be those of other simulations
_SEVERAL = re.compile(r"([1-9][0-9]{0,3})x")


@dataclass(frozen=True, slots=True)
class Server:
    """How long batches take: `duration = (fixed + per_item * size) * noise + pause + residual`.

    A `curve` may stand in the place of the line, `costs` add to either, and `conditions` change
    what comes of it, in turn.

    Attributes:
        fixed: Seconds that any batch takes.
        per_item: Seconds that each item adds.
        jitter: Sigma of the lognormal noise, whose mean is 1; 0 for none.
        pause_probability: Share of the batches that meet a pause of the machine.
        pause: Length of a pause (seconds).
        residuals: Seconds by which measured batches took longer than expected, in order of time.
            They come back in runs of neighbours.
        curve: Seconds by size, instead of `fixed` and `per_item`.
        conditions: What else happens to batches.
        costs: What the costs of their items add; None if the size alone matters.
    """

    fixed: float
    per_item: float
    jitter: float = 0.0
    pause_probability: float = 0.0
    pause: float = 0.0
    residuals: tuple[float, ...] = ()
    curve: Curve | None = None
    conditions: tuple[Condition, ...] = ()
    costs: CostSeconds | None = None

    def __post_init__(self) -> None:
        for name in ("fixed", "per_item", "jitter", "pause"):
            value = getattr(self, name)
            if not (isfinite(value) and value >= 0):
                raise ValueError(f"{name}: expected a finite number of 0 or more, got {value}")
        if self.jitter > _WILDEST:
            raise ValueError(
                f"jitter: expected a sigma of {_WILDEST} at the most, got {self.jitter}"
            )
        if not all(map(isfinite, self.residuals)):
            raise ValueError("residuals: expected finite seconds")
        if not 0 <= self.pause_probability <= 1:
            got = self.pause_probability
            raise ValueError(f"pause_probability: expected 0 to 1, got {got}")

    @property
    def noisy(self) -> bool:
        """Whether two batches of one size may take different times."""
        paused = self.pause_probability and self.pause
        return bool(self.jitter or paused or any(self.residuals))

    def mean(self, size: int) -> float:
        """Seconds that a batch takes on average, without what the costs of its items add."""
        more = sum(self.residuals) / len(self.residuals) if self.residuals else 0.0
        return max(0.0, self._ideal(size) + self.pause_probability * self.pause + more)

    def service(self, seed: int = 0) -> Service:
        """Draw the same for the same seed: the nth batch of every policy meets the same luck."""
        durations = self._durations(seed)
        changes = [condition.begin(seed) for condition in self.conditions]
        if changes or self.costs is not None:
            return Situated(durations, changes, self.costs)
        return durations

    def _ideal(self, size: int, more: float = 0.0) -> float:
        line = self.fixed + self.per_item * size if self.curve is None else self.curve(size)
        return line + more

    def _durations(self, seed: int) -> Durations:
        ideal = self._ideal
        if not self.noisy:
            return ideal
        draws = self._draws(np.random.default_rng([_STREAM, seed]))

        def duration(size: int, more: float = 0.0) -> float:
            noise, pause = next(draws)
            return max(0.0, ideal(size, more) * noise + pause)

        return duration

    def _draws(self, rng: np.random.Generator) -> Iterator[tuple[float, float]]:
        while True:
            noise = rng.lognormal(-(self.jitter**2) / 2, self.jitter, _BLOCK)
            pauses = self.pause * (rng.random(_BLOCK) < self.pause_probability)
            if self.residuals:
                pauses += np.fromiter(in_runs(self.residuals, rng, _RUN), float, _BLOCK)
            yield from zip(noise.tolist(), pauses.tolist(), strict=True)


@dataclass(frozen=True, slots=True)
class UnevenServers:
    """Workers that differ.

    Attributes:
        each: One for each worker, by index.
    """

    each: tuple[Server, ...]

    def service(self, seed: int = 0) -> list[Service]:
        """As `Server.service`, for each worker with a luck of its own."""
        seeds = np.random.SeedSequence([_UNEVEN, seed]).generate_state(len(self.each)).tolist()
        return [server.service(own) for server, own in zip(self.each, seeds, strict=True)]


def parse_servers(text: str) -> tuple[Server, ...]:
    """Read `5ms+0.05ms` for a worker, or `2x5ms+0.05ms` for two that are alike.

    Raises:
        ValueError: It is neither.
    """
    several = _SEVERAL.match(text)
    if several is None:
        return (parse_server(text),)
    return (parse_server(text[several.end() :]),) * int(several[1])


def in_runs(measured: Sequence[float], rng: np.random.Generator, length: int) -> Iterator[float]:
    """Draw for ever from what was measured, in runs of so many neighbours.

    What slows one slows the next: moving-block bootstrap (Künsch 1989), round in a circle.
    """
    while True:
        begins = rng.integers(len(measured), size=_BLOCK // length)
        drawn = begins[:, np.newaxis] + np.arange(length)
        yield from np.take(measured, drawn.ravel(), mode="wrap").tolist()


def parse_server(text: str) -> Server:
    """Read `5ms+0.05ms`, or a table such as `1:5ms,64:8ms`; either may add `+2us/token`.

    Raises:
        ValueError: It is none of them.
    """
    terms = text.split("+")
    costs = parse_cost_seconds(term for term in terms if "/" in term)
    by_size = "+".join(term for term in terms if "/" not in term)
    if ":" in by_size:
        return Server(0.0, 0.0, curve=parse_table(by_size), costs=costs)
    return Server(*parse_latency(by_size), costs=costs)


def parse_latency(text: str) -> tuple[float, float]:
    """Read `5ms+0.05ms`, or `5ms`: the seconds that a batch takes, and those that each item adds.

    Raises:
        ValueError: It is neither a duration nor two with a plus between them.
    """
    fixed, plus, per_item = text.partition("+")
    try:
        return parse_duration(fixed), parse_duration(per_item) if plus else 0.0
    except ValueError as error:
        raise ValueError(f"expected 5ms, or FIXED+PER_ITEM such as 5ms+0.05ms: {error}") from error
