"""What waits and what runs."""

import enum
from collections.abc import Hashable
from dataclasses import dataclass
from math import inf
from typing import NamedTuple


class BoundedKey(NamedTuple):
    """A batch key of its own whose batches hold fewer items than `Limits.max_batch_size` says.

    The bound is part of the key, so that jobs before and after a change of it don't mix.

    Attributes:
        key: What else has to be equal.
        max_batch_size: Items in a batch at the most. A job with more than that runs alone.
    """

    key: Hashable
    max_batch_size: int


class Priority(enum.Enum):
    """Which of a tenant's requests go first; the values are what clients write."""

    HIGH = "high"
    NORMAL = "normal"


class Job:
    """One request in the queue.

    Drivers subclass it to carry what the core need not know: the item, the future of its caller.

    Attributes:
        arrived: When it came, on the driver's clock (seconds).
        size: Items it brings; limits and the latency model count items, not requests.
        deadline: When its answer is due, on the same clock; `inf` if never.
        key: Jobs of different keys never share a batch.
        cost: What its items cost, where they don't cost the same (any unit); see `Costs`.
        queue: Which of the scheduler's queues it is in; None if in none. A queue that it has left
            may still know it, and must not take it for its own when it waits in another.
        tenant: The tenant that sent it, where they are told apart; None unless it is a `TenantJob`.
        priority: Whether it goes before others of its tenant.
    """

    __slots__ = ("arrived", "cost", "deadline", "key", "queue", "size")

    tenant: Hashable = None
    priority: Priority = Priority.NORMAL

    def __init__(
        self,
        arrived: float,
        size: int = 1,
        deadline: float = inf,
        key: Hashable = None,
        cost: float = 0.0,
    ) -> None:
        self.arrived = arrived
        self.size = size
        self.deadline = deadline
        self.key = key
        self.cost = cost
        self.queue: object | None = None

    @property
    def waiting(self) -> bool:
        """Whether it is in a queue of the scheduler."""
        return self.queue is not None

    def __repr__(self) -> str:
        due = "" if self.deadline == inf else f" deadline={self.deadline:.6f}"
        return f"<{type(self).__name__} arrived={self.arrived:.6f} size={self.size}{due}>"


class TenantJob(Job):
    """A job with a tenant; most jobs have none, and carry nothing about it."""

    __slots__ = ("priority", "tenant")

    def __init__(
        self,
        arrived: float,
        size: int = 1,
        deadline: float = inf,
        key: Hashable = None,
        cost: float = 0.0,
        *,
        tenant: Hashable = None,
        priority: Priority = Priority.NORMAL,
    ) -> None:
        super().__init__(arrived, size, deadline, key, cost)
        self.tenant = tenant
        self.priority = priority

    @classmethod
    def again(cls, job: Job, now: float) -> "TenantJob":
        """The job that would come if a caller sent its request again now."""
        due = now + job.deadline - job.arrived
        return cls(now, job.size, due, job.key, job.cost, tenant=job.tenant, priority=job.priority)


class Reason(enum.Enum):
    """Why a batch left when it did; the values are metric labels."""

    __hash__ = object.__hash__  # Enum's own is Python code, and batches are counted by reason

    FULL = "full"
    """It could take no more: the limit is reached, or what can be in time by all that is known."""
    DEADLINE = "deadline"
    """Its oldest job would have missed its deadline otherwise."""
    IDLE = "idle"
    """A worker was idle, and nothing spoke for waiting."""
    NOT_WORTH_WAITING = "not_worth_waiting"
    """Holding waiting jobs for longer would cost them more than it gains jobs that may join."""
    PREFERRED = "preferred"
    """It had reached a size that the policy prefers, though there was room for more."""
    TIMEOUT = "timeout"
    """The time that the policy grants a batch to fill was over."""
    PROBE = "probe"
    """A test of the prediction: all jobs of a key looked hopeless, or none left for long."""
    DRAIN = "drain"
    """The scheduler is closing."""
    BISECT = "bisect"
    """Its members were in a batch that failed, and run again in smaller company."""
    RETRY = "retry"
    """Its members were in a batch that was not to blame, and run again as they are."""


class Outcome(enum.Enum):
    """How a batch ended, as the latency model and the policy have to see it."""

    DONE = "done"
    FAILED = "failed"
    """It raised, or had an error for each: its duration says nothing about latency."""
    LOST = "lost"
    """Its worker died."""
    OVERLOADED = "overloaded"
    """The worker ran out of time: evidence against sending more."""
    REFUSED = "refused"
    """The worker had no time and did not begin: evidence as well, and none against the batch."""
    UNSENT = "unsent"
    """Nothing of it reached its worker."""
    UNANSWERED = "unanswered"
    """Its worker hung up before it answered: what was run is not known."""
    UNSHARED = "unshared"
    """What it returned can't be shared out: not one result for each item."""
    OUT_OF_MEMORY = "out_of_memory"
    """It was too large for its worker's memory."""


@dataclass(slots=True, eq=False)
class Batch:
    """Jobs that left together.

    Attributes:
        jobs: Its members, oldest first; the costliest first where costs add up and pads fill it up.
        size: Their items together.
        key: Their batch key.
        reason: Why it left.
        released: When it left (seconds).
        predicted: How long it is expected to run (seconds).
        left_waiting: Items of all keys that stayed behind.
        worker: Index of the worker that runs it.
        deaths: Of workers that ran its members before.
        cost: What its members cost together, where items don't cost the same; see `Costs`.
        own_cost: What they would cost in batches of their own; the rest of `cost` is padding.
        padded_size: Items that its worker runs: those, or the next allowed size; see `Limits`.
    """

    jobs: list[Job]
    size: int
    key: Hashable
    reason: Reason
    released: float
    predicted: float
    left_waiting: int
    worker: int
    deaths: int = 0
    cost: float = 0.0
    own_cost: float = 0.0
    padded_size: int = 0

    @property
    def predicted_finish(self) -> float:
        """When its worker is expected to be free again (seconds)."""
        return self.released + self.predicted

    def expected_finish(self, now: float, shortest: float) -> float:
        """When it is expected to end (seconds), for clients that are told to come again then.

        An overdue batch is expected to take as long again as it is overdue, and as long as the
        shortest batch at least: a client that is told "now" would ask thousands of times a second.
        """
        finish = self.predicted_finish
        return finish if finish > now else now + max(now - finish, shortest)
