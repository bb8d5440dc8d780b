"""One worker as the scheduler knows it: what it runs, and how fast it is beside its peers."""

from collections.abc import Hashable, Iterable, Sequence
from math import inf

from adaptive_batching.core.estimators.latency import LinearLatency
from adaptive_batching.core.estimators.medians import median_low
from adaptive_batching.core.estimators.pace import Latency, Pace, ScaledLatency
from adaptive_batching.core.job import Batch


class Worker:
    """A place where one batch runs at a time; what was learned of it outlives a restart.

    Attributes:
        index: Its number among the workers, from 0.
        alive: Whether it holds a batch or could take one.
        batch: What it runs; None if it is idle.
        batches: How many it has ended.
        identity: What it is called, where others may take its place; else None.
        latency: How long a batch takes on it.
        pace: How long its batches took beside the pool's line.
    """

    __slots__ = ("alive", "batch", "batches", "identity", "index", "latency", "pace", "released")

    def __init__(self, index: int, pool: LinearLatency) -> None:
        self.index = index
        self.alive = False
        self.batch: Batch | None = None
        self.batches = 0
        self.identity: Hashable = None
        self.latency = ScaledLatency(pool)
        self.pace = Pace()
        self.released = -inf
        """When its newest batch left (seconds)."""

    def __repr__(self) -> str:
        state = "dead" if not self.alive else "idle" if self.batch is None else "busy"
        return f"<Worker {self.index} {state} {self.latency!r}>"

    @property
    def name(self) -> str:
        """The worker's own name, such as a model server's; empty if it has only an index."""
        return self.identity if isinstance(self.identity, str) else ""

    def become(self, identity: Hashable) -> None:
        """Be another worker, of which nothing is known, unless this is what it was already."""
        if identity != self.identity:
            self.identity = identity
            self.batches = 0
            self.latency = ScaledLatency(self.latency.pool)
            self.pace = Pace()

    def free(self, now: float) -> float:
        """When it is expected to be free (seconds); `now` if it is, or that is overdue."""
        return now if self.batch is None else max(now, self.batch.predicted_finish)

    def worth(self, workers: Iterable["Worker"]) -> float:
        """How many workers like this one could do the work of some."""
        factor = self.latency.factor
        return sum(factor / each.latency.factor for each in workers)

    def latency_by(self, line: Latency) -> ScaledLatency:
        """How long batches of some kind take on it that have this line on most workers."""
        own = self.latency
        return own if line is own.pool else ScaledLatency(line, own.factor)

    def learn(self, size: int, duration: float, line: Latency, cost: float = 0.0) -> None:
        """Hold a duration (seconds) against the line of such batches."""
        self.pace.learn(size, duration, line, cost)


def slowness(workers: Sequence[Worker]) -> list[float]:
    """How many times as long each worker takes as the one in the middle of those that are alive.

    For people: decisions count by the factors, whose line may be that of a dead worker.
    """
    peers = [worker.latency.factor for worker in workers if worker.alive]
    middle = median_low(peers) if peers else 1.0
    return [worker.latency.factor / middle for worker in workers]
