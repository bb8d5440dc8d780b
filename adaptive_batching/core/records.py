"""What happened: flat, frozen, and the same from every driver."""

import enum
from collections.abc import Hashable
from math import inf
from operator import attrgetter
from typing import NamedTuple, Self

from adaptive_batching.core.job import Batch, Outcome, Reason

_ARRIVED = attrgetter("arrived")

RECORDING = "t_seconds,size,cost,latency_seconds,key,outcome,batch,batch_size,batch_seconds,reason"
"""The header of a recording on disk: a row for each job; the last four are empty if it never ran.

The cost is that of the job (`Job.cost`), 0 where items don't have any. It is empty for a request
that was refused before its cost was known.

What writes it (`instrumentation`) and what reads it (`simulation`) may not know each other.
"""


class BatchRecord(NamedTuple):
    """One batch that has ended. All times in seconds on the driver's clock."""

    released: float
    finished: float
    size: int
    """Items."""
    requests: int
    key: Hashable
    reason: Reason
    outcome: Outcome
    predicted: float
    """Expected duration when it was released."""
    oldest_arrived: float
    left_waiting: int
    """Items that stayed in the queue when it left."""
    worker: int = 0
    """Index of the worker that ran it."""
    cost: float = 0.0
    """What its items cost together, where they don't cost the same; see `Costs`."""
    own_cost: float = 0.0
    """What its requests would cost in batches of their own; the rest of `cost` is padding."""
    padded_size: int = 0
    """Items that its worker ran: those, or the next allowed size; see `Limits`."""

    @classmethod
    def of(cls, batch: Batch, outcome: Outcome, now: float) -> Self:
        """The record of a batch that ends now."""
        return cls(  # by position: keywords double its cost
            batch.released,
            now,
            batch.size,
            len(batch.jobs),
            batch.key,
            batch.reason,
            outcome,
            batch.predicted,
            min(map(_ARRIVED, batch.jobs)),
            batch.left_waiting,
            batch.worker,
            batch.cost,
            batch.own_cost,
            batch.padded_size,
        )

    @property
    def duration(self) -> float:
        """How long the worker held it."""
        return self.finished - self.released


class JobOutcome(enum.Enum):
    """The one end of a job; the values are metric labels and report columns."""

    __hash__ = object.__hash__  # as for Reason

    DONE = "done"
    """Answered, and live also in time; it may be the answer that what was sent is no item."""
    FAILED = "failed"
    """Its batch raised, its worker died, the handler named an error for it, or `cost` raised."""
    SHED = "shed"
    """Refused on a prediction."""
    QUEUE_FULL = "queue_full"
    EXPIRED = "expired"
    """Its deadline came before its answer, in the queue or in its batch. If the event loop was
    so late that the answer is there when it looks, the caller gets that."""
    CANCELLED = "cancelled"
    """Its caller went away."""


class JobRecord(NamedTuple):
    """One job that has ended. All times in seconds on the driver's clock."""

    arrived: float
    finished: float
    size: int
    """Items."""
    outcome: JobOutcome
    deadline: float = inf
    """When its answer was due."""
    key: Hashable = None
    tenant: Hashable = None
    cost: float = 0.0
    """What its items cost, where they don't cost the same; see `Job.cost`."""

    @property
    def in_time(self) -> bool:
        """Whether it was answered by its deadline."""
        return self.outcome is JobOutcome.DONE and self.finished <= self.deadline

    @property
    def latency(self) -> float:
        """From arrival to end."""
        return self.finished - self.arrived
