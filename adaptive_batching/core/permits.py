"""The outbound semaphore: which workers there are, which are idle, and when the next is free."""

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from math import exp, inf
from types import MappingProxyType

from adaptive_batching.core.estimators.evidence import MEMORY, TRUSTED_AFTER
from adaptive_batching.core.estimators.latency import LinearLatency
from adaptive_batching.core.estimators.line import Line
from adaptive_batching.core.estimators.medians import median_low
from adaptive_batching.core.estimators.pace import KeyPace
from adaptive_batching.core.job import Batch
from adaptive_batching.core.worker import Worker

_ALWAYS_THE_SAME: Mapping[int, Hashable] = MappingProxyType({})


class Permits:
    """One permit a worker. Taken when a batch is released, returned when it has ended.

    Args:
        workers: How many are alive, numbered from 0.
        latency: The pool's; durations are learned through `learn`.
    """

    __slots__ = (
        "_idle", "capacity", "changes", "earliest", "idle", "last_release", "latency", "next_probe",
        "running", "uneven", "workers",
    )  # fmt: skip

    def __init__(self, workers: int, latency: LinearLatency | None = None) -> None:
        self.latency = LinearLatency() if latency is None else latency
        self.running: set[Batch] = set()
        """Batches that have left and not ended; `take` and `give_back` change them."""
        self.earliest = inf
        """When the first of them is expected to end (seconds)."""
        self._idle: deque[Worker] = deque()  # the one that has been idle longest first
        self.workers: list[Worker] = []
        """All that there ever were, by index; a dead one keeps its place and what it has taught."""
        self.capacity = 0
        """Workers that are alive."""
        self.idle = 0
        """Permits to be had."""
        self.changes = 0
        """How often a batch has left, ended or been rehearsed, or workers, policy or limits have
        changed."""
        self.last_release = -inf
        self.next_probe = -inf
        """From when a probe may displace other jobs (seconds); see `spend_on_probe`."""
        self.uneven = False
        """Whether some worker is proven to be slower or faster than most."""
        self.set_alive(range(workers))

    def __repr__(self) -> str:
        return f"<Permits idle={self.idle}/{self.capacity}>"

    def requests(self, among: Callable[[Hashable], bool] = lambda _: True) -> int:
        """Jobs in the batches that run, or in those of some batch keys."""
        return sum(len(batch.jobs) for batch in self.running if among(batch.key))

    @property
    def alive(self) -> list[Worker]:
        """Workers that hold a batch or could take one."""
        return [worker for worker in self.workers if worker.alive]

    def set_alive(
        self,
        indexes: Collection[int],
        identities: Mapping[int, Hashable] = _ALWAYS_THE_SAME,
    ) -> None:
        """Say which workers are alive; a batch on a dead worker runs until it is given back.

        Args:
            indexes: Of the living.
            identities: By index, what they are called, where that may change; a stranger begins
                with the pool's line, as a new worker does.
        """
        while len(self.workers) <= max(indexes, default=-1):
            self.workers.append(Worker(len(self.workers), self.latency))
        for worker in self.workers:
            was_idle = worker.alive and worker.batch is None
            worker.alive = worker.index in indexes
            worker.become(identities.get(worker.index, worker.identity))
            if was_idle and not worker.alive:
                self._idle.remove(worker)
            elif worker.alive and worker.batch is None and not was_idle:
                self._idle.append(worker)
        self.changes += 1
        self.capacity = len(indexes)
        self.idle = len(self._idle)
        self._compare()

    def next_free(self, now: float) -> float:
        """When the next running batch is expected to end (seconds): `now` if that is overdue."""
        if self.uneven:
            worker = self.foremost(now)
            return inf if worker is None else worker.free(now)
        earliest = self.earliest
        return earliest if earliest > now else now  # noqa: FURB136  max() costs thrice as much

    def room_after(self, now: float, shortest: float) -> float:
        """Seconds after which there is room for a client that found none; `inf` without workers.

        Args:
            now: The present (seconds).
            shortest: Seconds that the shortest batch takes: behind the batch that an idle worker
                takes now, none leaves sooner.
        """
        if self.idle:
            return shortest
        ends = [batch.expected_finish(now, shortest) for batch in self.running]
        return min(ends, default=inf) - now

    def foremost(self, now: float) -> Worker | None:
        """Where a large batch would end first of all workers that are busy now."""
        large = self.latency.predict(self.latency.largest)
        first, soonest = None, inf
        for worker in self.workers:
            batch = worker.batch
            if batch is None or not worker.alive:
                continue
            free = batch.released + batch.predicted
            ends = max(free, now) + large * worker.latency.factor
            if ends < soonest:
                first, soonest = worker, ends
        return first

    @property
    def idlest(self) -> Worker:
        """Where a batch would end first of all idle workers; of equals, the one idle longest."""
        if not self.uneven:
            return self._idle[0]
        return min(self._idle, key=_factor)

    def idle_share(self, line: Line, items: float) -> float:
        """By how many workers like the best idle one so many items could be shared out at once.

        A slower one has a smaller part, so that all end at the same time, but for the fixed part.
        It counts if its part is answered sooner than all would be by those before it.

        Args:
            line: How long batches take on a worker as fast as most.
            items: What is shared out.
        """
        factors = sorted([worker.latency.factor for worker in self._idle])
        share = 0.0
        for factor in factors:
            speed = factors[0] / factor
            part = line.fixed + line.per_item * items * speed / (share + speed)
            if share and part > speed * (line.fixed + line.per_item * items / share):
                break
            share += speed
        return share

    def take(self, batch: Batch) -> None:
        """The batch leaves for its worker, which must be idle."""
        worker = self.workers[batch.worker]
        if self._idle[0] is worker:
            self._idle.popleft()
        else:
            self._idle.remove(worker)
        worker.batch = batch
        worker.released = batch.released
        self.changes += 1
        self.running.add(batch)
        self.idle -= 1
        self.last_release = batch.released
        self.earliest = min(self.earliest, batch.released + batch.predicted)

    def give_back(self, batch: Batch) -> None:
        """The batch has ended."""
        self.changes += 1
        self.running.remove(batch)
        worker = self.workers[batch.worker]
        worker.batch = None
        worker.batches += 1
        if worker.alive:
            self._idle.append(worker)
            self.idle += 1
        if not self.running:
            self.earliest = inf
        elif batch.predicted_finish <= self.earliest:
            self.earliest = min(each.predicted_finish for each in self.running)

    def spend_on_probe(self, now: float, seconds: float) -> None:
        """Charge a probe that displaces other jobs: they get a fiftieth of the workers' time.

        Each key's probes keep to such a share by themselves, but keys may be many.
        """
        since = max(self.next_probe, now)
        self.next_probe = since + MEMORY * seconds / max(1, self.capacity)

    def learn(
        self,
        index: int,
        size: int,
        duration: float,
        line: LinearLatency | None = None,
        pace: KeyPace | None = None,
        cost: float = 0.0,
    ) -> None:
        """A batch of `size` items ran on this worker in `duration` seconds.

        The pool's line is that of a worker as fast as most, for batch keys as fast as most:
        durations are divided by the factors of both, so that it is learned from all of them and is
        no noisier than if they were alike. If the batch was of a kind that has a line of its own,
        the pool's is that of all kinds together, and only good for a rough idea. The line learns
        first: a change that it sees in all batches is not the worker's, though this one ran them.

        Args:
            index: Of the worker.
            size: Items.
            duration: Seconds.
            line: Its kind's own; None if it has none.
            pace: Its batch key's; None if there is only one key, if the key has a line of its own,
                or if it has been forgotten.
            cost: What it cost; see `Costs`.
        """
        worker, took = self.workers[index], duration
        duration /= worker.latency.factor
        if pace is not None:
            pace.learn(size, duration, cost)
            duration /= pace.factor
        self.latency.observe(size, duration, cost)
        if line is not None:
            line.observe(size, duration, cost)
        if len(self.workers) > 1:
            usual = self.latency if pace is None else pace.latency
            worker.learn(size, took, usual if line is None else line, cost)
            self._compare()

    def rehearse(self, timings: Iterable[tuple[int, int, float, float]]) -> None:
        """Learn from what ran before the first request.

        The pool's line is learned from the worker in the middle of each batch that all of them ran,
        and each one's pace beside that: no worker is known yet, and a slow one would bend the line.

        Args:
            timings: Of each batch the worker, its size (items), its duration (seconds) and its cost
                (see `Costs`).
        """
        of_batch: dict[tuple[int, float], list[float]] = {}
        timings = list(timings)
        for _, size, duration, cost in timings:
            of_batch.setdefault((size, cost), []).append(duration)
        self.changes += 1
        for (size, cost), durations in of_batch.items():
            self.latency.observe(size, median_low(durations), cost)
        for index, size, duration, cost in timings:
            self.workers[index].learn(size, duration, self.latency, cost)
        self._compare()

    def _compare(self) -> None:
        """Hold the workers against the one in the middle, the faster one of two: most are as it is.

        A worker is compared from its fifth batch on: those before it may have been cold.
        What all have in common, a line that lags behind a model that changed, is not their doing.
        """
        paces = [worker.pace for worker in self.workers]
        known = sorted([pace.log_ratio for pace in paces if pace.batches >= TRUSTED_AFTER])
        reference = known[(len(known) - 1) // 2] if known else 0.0
        self.uneven = False
        for worker in self.workers:
            pace = worker.pace
            if pace.differs(reference):
                worker.latency.factor = exp(pace.log_ratio - reference)
                self.uneven = self.uneven or worker.alive
            else:
                worker.latency.factor = 1.0


def _factor(worker: Worker) -> float:
    return worker.latency.factor
