"""A batch on its worker, and what changes how long it takes and how it ends."""

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple, Protocol

from adaptive_batching.core import Job, Outcome
from adaptive_batching.simulation.servers.costs import CostSeconds


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
