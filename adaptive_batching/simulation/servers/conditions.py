"""What happens to workers in the course of a day: each a small class that changes a run."""

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from math import isfinite
from typing import NamedTuple, Protocol

import numpy as np

from adaptive_batching.core import Job, Outcome
from adaptive_batching.simulation.servers.costs import CostSeconds
from adaptive_batching.units import parse_duration, parse_occasion, parse_share


class Run(NamedTuple):
    """One batch on its worker.

    Attributes:
        seconds: How long it takes.
        now: When it begins (seconds).
        beside: Batches that run already.
        worker: Index of its worker.
        outcome: How it ends.
        restart: If its worker dies over it, the seconds until that is back.
        key: The batch key of its jobs.
    """

    seconds: float
    now: float
    beside: int
    worker: int = 0
    outcome: Outcome = Outcome.DONE
    restart: float | None = None
    key: Hashable = None


Change = Callable[[Run], Run]


class Durations(Protocol):
    """How long batches take, each time with the luck of the next one."""

    def __call__(self, size: int, more: float = 0.0) -> float:
        """Seconds for a batch of so many items that takes so much longer than its size says."""


class Condition(Protocol):
    """Something that changes runs."""

    def begin(self, seed: int) -> Change:
        """Return the effect on one simulation; the same luck for the same seed."""


class Situated:
    """A service to which it matters what is in a batch, when it begins and what runs beside it."""

    def __init__(
        self, durations: Durations, changes: Sequence[Change], costs: CostSeconds | None = None
    ) -> None:
        self._durations = durations
        self._changes = changes
        self._costs = costs

    def run(
        self,
        size: int,
        now: float,
        beside: int,
        worker: int = 0,
        key: Hashable = None,
        jobs: Sequence[Job] = (),
    ) -> Run:
        """What becomes of a batch."""
        more = 0.0 if self._costs is None else self._costs(jobs)
        run = Run(self._durations(size, more), now, beside, worker, key=key)
        for change in self._changes:
            run = change(run)
        return run


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


def parse_key_costs(text: str) -> KeyCosts:
    """Read `1,8` for keys that are drawn, in their order, or `resnet=1,bert=8` by their names.

    Raises:
        ValueError: It is neither, or a key is there twice.
    """
    parts = [part.rpartition("=") for part in text.split(",")]
    named = {bool(equals) for _, equals, _ in parts}
    if len(named) > 1 or not all(_MULTIPLE.fullmatch(cost) for *_, cost in parts):
        raise ValueError(f"expected multiples such as 1,8, or a=1,b=8, got {text!r}")
    costs: dict[Hashable, float] = {
        key if equals else index: float(cost) for index, (key, equals, cost) in enumerate(parts)
    }
    if len(costs) < len(parts):
        raise ValueError(f"expected each key once, got {text!r}")
    return KeyCosts(costs)


def parse_pauses(text: str) -> Pauses:
    """Read `10ms/2s`: a pause of 10 ms, and the next one 2 s after it on average.

    Raises:
        ValueError: It isn't two durations with a slash between them.
    """
    length, _, every = text.partition("/")
    return Pauses(parse_duration(length), parse_duration(every))


def parse_drift(text: str) -> Drift:
    """Read `2x@6s` for a step at 6 s, `1.5x@6s-20s` for a ramp, `3:2x@6s` for worker 3 alone.

    Raises:
        ValueError: It is none of them.
    """
    match = _DRIFT.fullmatch(text)
    if match is None:
        raise ValueError(f"expected [WORKER:]FACTORx@TIME[-TIME] such as 2x@6s, got {text!r}")
    worker = int(match[1]) if match[1] else None
    start = parse_duration(match[3])
    end = parse_duration(match[4]) if match[4] else start
    if end < start:
        raise ValueError(f"expected an end that is not before the start, got {text!r}")
    return Drift(float(match[2]), start, end - start, worker)


def parse_cold_start(text: str) -> ColdStart:
    """Read `5:200ms`: the first 5 batches take 200 ms more.

    Raises:
        ValueError: It isn't a number and a duration.
    """
    batches, colon, extra = text.partition(":")
    if not colon or not batches.strip().isdecimal():
        raise ValueError(f"expected BATCHES:DURATION such as 5:200ms, got {text!r}")
    return ColdStart(int(batches), parse_duration(extra))


def parse_failures(text: str) -> Failures:
    """Read `0.5%`.

    Raises:
        ValueError: It isn't a percentage from 0 to 100.
    """
    return Failures(parse_share(text))


def parse_crashes(text: str) -> Crashes:
    """Read `0.1%:2s`: one batch in a thousand kills its worker, which is back after 2 s.

    Raises:
        ValueError: It isn't a percentage and a duration with a colon between them.
    """
    return Crashes(*parse_occasion(text))


def parse_shared(text: str) -> SharedDevice:
    """Read `30%`: each batch that runs beside another lengthens it by that much.

    Raises:
        ValueError: It isn't a percentage.
    """
    return SharedDevice(parse_share(text))


_STEEPEST = 1e6
_STREAM = 4  # arrivals and workers made with the same seed must not share our random numbers
_CRASHES = 6  # nor failures and crashes each other's
_PAUSES = 9
_CLOSEST = 1e-6  # seconds
_BLOCK = 64  # pauses that are drawn at a time
_MULTIPLE = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_DRIFT = re.compile(r"(?:([0-9]{1,4}):)?([0-9]+(?:\.[0-9]+)?)x@([^-]+)(?:-([^-]+))?")
