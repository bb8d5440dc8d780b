"""Who keeps what of a simulation: every record, or whatever else a collector makes of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from adaptive_batching.core import Batch, BatchRecord, Job, JobOutcome, JobRecord

_tuple = tuple.__new__  # what a named tuple's own constructor calls, for twice the price


class Collector(Protocol):
    """Is told what happens, in the order in which it happens."""

    def batch_released(self, batch: Batch) -> None:
        """A batch has left."""
        ...

    def batch_ended(self, record: BatchRecord) -> None:
        """A batch has ended; its jobs follow."""
        ...

    def jobs_ended(self, jobs: Sequence[Job], now: float, outcome: JobOutcome) -> None:
        """Some jobs have ended, all in the same way."""
        ...


class Backdated:
    """Tells a collector that jobs came earlier than the event loop noticed them.

    Args:
        collector: Who is told.
        delay: By how much (seconds).
    """

    def __init__(self, collector: Collector, delay: float) -> None:
        self._delay = delay
        self._collector = collector
        self.batch_released = collector.batch_released
        self.batch_ended = collector.batch_ended

    def jobs_ended(self, jobs: Sequence[Job], now: float, outcome: JobOutcome) -> None:
        """Their patience began when they came."""
        delay = self._delay
        came = [Job(job.arrived - delay, job.size, job.deadline - delay, job.key) for job in jobs]
        self._collector.jobs_ended(came, now, outcome)


@dataclass(slots=True)
class History:
    """What happened, in the order in which it ended."""

    jobs: list[JobRecord] = field(default_factory=list)
    batches: list[BatchRecord] = field(default_factory=list)

    def batch_released(self, batch: Batch) -> None:
        """Its record comes when it has ended."""

    def batch_ended(self, record: BatchRecord) -> None:
        """Keep it."""
        self.batches.append(record)

    def jobs_ended(self, jobs: Sequence[Job], now: float, outcome: JobOutcome) -> None:
        """Keep a record of each."""
        self.jobs += [
            _tuple(JobRecord, (job.arrived, now, job.size, outcome, job.deadline, job.key))
            for job in jobs
        ]
