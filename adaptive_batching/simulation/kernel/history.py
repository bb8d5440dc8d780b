"""What is kept of a simulation: every record, or what else a collector makes of it."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, cast

from adaptive_batching.core import Batch, BatchRecord, Job, JobOutcome, JobRecord, TenantJob
from adaptive_batching.simulation.clients.tenants import NOBODY, Claim

_tuple = tuple.__new__  # what a named tuple's own constructor calls, for twice the price


class Collector(Protocol):
    """Is told what happens, in the order in which it happens."""

    def batch_released(self, batch: Batch) -> None:
        """A batch has left."""

    def batch_ended(self, record: BatchRecord) -> None:
        """A batch has ended; its jobs follow."""

    def jobs_ended(self, jobs: Sequence[Job], now: float, outcome: JobOutcome) -> None:
        """Some jobs have ended, all in the same way."""


class NoticedJob(TenantJob):
    """A job that came earlier than the event loop noticed it; its patience began when it came.

    Attributes:
        came: When it came (seconds).
        due: When its caller wants the answer (seconds).
    """

    __slots__ = ("came", "due")

    def __init__(
        self,
        came: float,
        delay: float,
        size: int,
        max_latency: float,
        key: Hashable,
        claim: Claim = NOBODY,
        cost: float = 0.0,
    ) -> None:
        noticed, (tenant, priority) = came + delay, claim
        super().__init__(
            noticed, size, noticed + max_latency, key, cost, tenant=tenant, priority=priority
        )
        self.came = came
        self.due = came + max_latency

    @property
    def backdated(self) -> Job:
        """As its caller sees it."""
        return TenantJob(self.came, self.size, self.due, self.key, self.cost, tenant=self.tenant)


class Backdated:
    """Tells a collector when jobs came, not when the event loop noticed them."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self.batch_released = collector.batch_released
        self.batch_ended = collector.batch_ended

    def jobs_ended(self, jobs: Sequence[Job], now: float, outcome: JobOutcome) -> None:
        """As their callers see it."""
        noticed = cast("Sequence[NoticedJob]", jobs)
        self._collector.jobs_ended([job.backdated for job in noticed], now, outcome)


@dataclass(slots=True)
class History:
    """What happened, in the order in which it ended."""

    jobs: list[JobRecord] = field(default_factory=list)
    batches: list[BatchRecord] = field(default_factory=list)

    def batch_released(self, batch: Batch) -> None:
        """Keep nothing: the record of a batch comes when it has ended."""

    def batch_ended(self, record: BatchRecord) -> None:
        """Keep it."""
        self.batches.append(record)

    def jobs_ended(self, jobs: Sequence[Job], now: float, outcome: JobOutcome) -> None:
        """Keep a record of each."""
        self.jobs += [
            _tuple(
                JobRecord,
                (job.arrived, now, job.size, outcome, job.deadline, job.key, job.tenant, job.cost),
            )
            for job in jobs
        ]
