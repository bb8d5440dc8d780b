"""What a dispatcher has done, in counts."""

from collections import Counter
from dataclasses import dataclass
from typing import Self

from adaptive_batching.core import Batch, JobOutcome, Reason


@dataclass(frozen=True, slots=True)
class Stats:
    """What a dispatcher has done so far and what it has before it.

    Attributes:
        requests: Ended requests by outcome.
        batches: Ended batches.
        mean_batch_size: Items; 0 before the first batch.
        releases: Ended batches by the reason of their release.
        fixed: Fitted seconds of any batch.
        per_item: Fitted seconds that each item adds.
        queued: Items that wait.
        running: Batches that run.
        workers: Workers that are alive.
    """

    requests: dict[JobOutcome, int]
    batches: int
    mean_batch_size: float
    releases: dict[Reason, int]
    fixed: float
    per_item: float
    queued: int
    running: int
    workers: int

    @classmethod
    def nothing(cls) -> Self:
        """Of a dispatcher that was not used yet."""
        requests = dict.fromkeys(JobOutcome, 0)
        return cls(requests, 0, 0.0, dict.fromkeys(Reason, 0), 0.0, 0.0, 0, 0, 0)


class Ledger:
    """Counts; every request is entered exactly once, when it ends."""

    __slots__ = ("batches", "items", "releases", "requests")

    def __init__(self) -> None:
        self.requests: Counter[JobOutcome] = Counter()
        self.releases: Counter[Reason] = Counter()
        self.batches = 0
        self.items = 0

    def enter(self, outcome: JobOutcome, requests: int = 1) -> None:
        """Some requests have ended."""
        self.requests[outcome] += requests

    def enter_batch(self, batch: Batch, done: int, failed: int, cancelled: int) -> None:
        """A batch has ended, and its members with it."""
        self.requests[JobOutcome.DONE] += done
        if failed:
            self.requests[JobOutcome.FAILED] += failed
        if cancelled:
            self.requests[JobOutcome.CANCELLED] += cancelled
        self.releases[batch.reason] += 1
        self.batches += 1
        self.items += batch.size

    @property
    def mean_batch_size(self) -> float:
        """Items per batch; 0 before the first."""
        return self.items / self.batches if self.batches else 0.0
