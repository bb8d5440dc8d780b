"""What happens to workers in the course of a day: each a small class that changes a run."""

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from math import isfinite

import numpy as np

from adaptive_batching.core import Outcome
from adaptive_batching.simulation.servers.runs import Change, Run


@dataclass(frozen=True, slots=True)
class KeyCosts:
    """Batches of different keys take different multiples of the model's duration.

    Attributes:
        costs: The multiple of each key; a key that is not among them costs 1.
    """

    costs: Mapping[Hashable, float]

    def __post_init__(self) -> None:
        for key, cost in self.costs.items():
            if not 0 < cost <= _STEEPEST:
                msg = f"key cost: expected a positive multiple of {_STEEPEST:g} at the most"
                raise ValueError(f"{msg}, got {cost:g} for {key}")

    def __str__(self) -> str:
        costs = [
            f"{cost:g}" if key == index else f"{key}={cost:g}"
            for index, (key, cost) in enumerate(self.costs.items())
        ]
        return f"costs {', '.join(costs)}"

    def begin(self, seed: int) -> Change:
        """Return the effect, which is the same for every seed."""
        cost = self.costs.get
        return lambda run: run._replace(seconds=run.seconds * cost(run.key, 1.0))


@dataclass(frozen=True, slots=True)
class Drift:
    """From an instant on, batches take so many times as long; gradually if it has a length.

    Attributes:
        factor: Times as long, in the end.
        start: When it begins (seconds).
        length: Seconds until it is complete; 0 for a step.
        worker: Index of the only worker that it happens to; None for all.
    """

    factor: float
    start: float
    length: float = 0.0
    worker: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.factor <= _STEEPEST:
            msg = f"drift: expected a positive factor of {_STEEPEST:g} at the most"
            raise ValueError(f"{msg}, got {self.factor}")

    def begin(self, seed: int) -> Change:
        """Return the effect, which is the same for every seed."""
        return self._slower

    def _slower(self, run: Run) -> Run:
        if run.now < self.start or self.worker not in {None, run.worker}:
            return run
        since = run.now - self.start
        done = 1.0 if since >= self.length else since / self.length
        return run._replace(seconds=run.seconds * (1 + (self.factor - 1) * done))


@dataclass(frozen=True, slots=True)
class Pauses:
    """Each worker stands still now and then, whether a batch is on it or not.

    They strike time, as those of a machine do: large batches meet as many in a second as small
    ones. So every policy meets the same pauses at the same instants.

    Attributes:
        length: Of a pause (seconds).
        every: Mean time from the end of one until the next on the same worker (seconds).
    """

    length: float
    every: float

    def __post_init__(self) -> None:
        if not (isfinite(self.length) and self.length >= 0):
            raise ValueError(f"pause: expected 0 seconds or more, got {self.length}")
        if not (isfinite(self.every) and self.every >= _CLOSEST):
            msg = f"pause: expected a mean time between pauses of {_CLOSEST:g} s or more"
            raise ValueError(f"{msg}, got {self.every:g} s")

    def begin(self, seed: int) -> Change:
        """Draw the same instants for the same seed, and others on each worker."""
        of_workers: dict[int, _Standing] = {}

        def paused(run: Run) -> Run:
            standing = of_workers.get(run.worker)
            if standing is None:
                rng = np.random.default_rng([_PAUSES, seed, run.worker])
                standing = of_workers[run.worker] = _Standing(self.length, self.every, rng)
            return run._replace(seconds=run.seconds + standing.still(run.now, run.seconds))

        return paused


class _Standing:
    """When one worker stands still; asked for batches in order of their begin."""

    def __init__(self, length: float, every: float, rng: np.random.Generator) -> None:
        self._length = length
        self._starts = self._drawn(every, rng)
        self._start = next(self._starts)  # of the first pause that is not over

    def _drawn(self, every: float, rng: np.random.Generator) -> Iterator[float]:
        now = 0.0
        while True:
            for gap in rng.exponential(every, _BLOCK).tolist():
                yield now + gap
                now += gap + self._length

    def still(self, now: float, seconds: float) -> float:
        """Return the seconds of pauses in a batch that begins now and takes so long without."""
        while self._start + self._length <= now:
            self._start = next(self._starts)
        still = 0.0
        while self._start < now + seconds + still:
            still += self._start + self._length - max(self._start, now)
            self._start = next(self._starts)
        return still


@dataclass(frozen=True, slots=True)
class ColdStart:
    """The first batches take longer, while caches fill and kernels are chosen.

    Attributes:
        batches: How many, on all workers together.
        extra: Seconds that each takes in addition.
    """

    batches: int
    extra: float

    def begin(self, seed: int) -> Change:
        """All of them are still to come."""
        begun = count(1)

        def slower(run: Run) -> Run:
            cold = next(begun) <= self.batches
            return run._replace(seconds=run.seconds + self.extra) if cold else run

        return slower


@dataclass(frozen=True, slots=True)
class Failures:
    """Some batches fail at their end, and all their jobs with them.

    Attributes:
        share: Of the batches.
    """

    share: float

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ValueError(f"failures: expected a share of 0 to 1, got {self.share}")

    def begin(self, seed: int) -> Change:
        """The nth batch of every policy meets the same luck."""
        rng = np.random.default_rng([_STREAM, seed])

        def failing(run: Run) -> Run:
            return run._replace(outcome=Outcome.FAILED) if rng.random() < self.share else run

        return failing


@dataclass(frozen=True, slots=True)
class Crashes:
    """Some workers die in the midst of a batch: its jobs fail, and a worker is missing for a while.

    Attributes:
        share: Of the batches.
        restart: Seconds until the worker is back.
    """

    share: float
    restart: float

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ValueError(f"crashes: expected a share of 0 to 1, got {self.share}")
        if not (isfinite(self.restart) and self.restart >= 0):
            msg = f"crashes: expected 0 seconds or more to restart, got {self.restart}"
            raise ValueError(msg)

    def begin(self, seed: int) -> Change:
        """The nth batch of every policy meets the same luck; death comes at any moment alike."""
        rng = np.random.default_rng([_CRASHES, seed])

        def dying(run: Run) -> Run:
            dies, moment = rng.random() < self.share, rng.random()
            if not dies:
                return run
            seconds = run.seconds * moment
            return run._replace(seconds=seconds, outcome=Outcome.LOST, restart=self.restart)

        return dying


@dataclass(frozen=True, slots=True)
class SharedDevice:
    """Workers on one device slow each other: as many as run when a batch begins, until its end.

    Attributes:
        slowdown: Share of its time by which each of them lengthens it.
    """

    slowdown: float

    def __post_init__(self) -> None:
        if not (isfinite(self.slowdown) and self.slowdown >= 0):
            raise ValueError(f"shared: expected a share of 0 or more, got {self.slowdown}")

    def begin(self, seed: int) -> Change:
        """Return the effect, which is the same for every seed."""
        return lambda run: run._replace(seconds=run.seconds * (1 + self.slowdown * run.beside))


_STEEPEST = 1e6
_STREAM = 4  # arrivals and workers made with the same seed must not share our random numbers
_CRASHES = 6  # nor failures and crashes each other's
_PAUSES = 9
_CLOSEST = 1e-6  # seconds
_BLOCK = 64  # pauses that are drawn at a time
