"""What has become of requests and batches, in counts."""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Sequence

from adaptive_batching.core import Batch, Job, JobOutcome, Reason, Verdict


class Counters:
    """Counts; every request is entered exactly once, when it ends."""

    __slots__ = ("batches", "items", "releases", "requests", "verdicts")

    def __init__(self) -> None:
        self.requests: Counter[JobOutcome] = Counter()
        self.releases: Counter[Reason] = Counter()
        self.verdicts: Counter[Verdict] = Counter()
        self.batches = 0
        self.items = 0

    def enter(self, outcome: JobOutcome, requests: int = 1) -> None:
        """Some requests have ended."""
        self.requests[outcome] += requests

    def enter_rerun(self, done: int, failed: int) -> None:
        """Suspects ran again, and the handler returned for so many."""
        self.verdicts[Verdict.INNOCENT] += done
        self.verdicts[Verdict.GUILTY] += failed

    def enter_batch(self, batch: Batch, done: int, late: int, failed: int, cancelled: int) -> None:
        """A batch has ended, and its members with it, but for those that run again."""
        self.requests[JobOutcome.DONE] += done
        if late:
            self.requests[JobOutcome.EXPIRED] += late
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


class CountersByClass:
    """The counters of all that a dispatcher does, and one for each class of jobs.

    Args:
        classes: Their batch keys; where there are any, every job is of one of them.

    Attributes:
        whole: Of all classes together.
    """

    __slots__ = ("_of_class", "whole")

    def __init__(self, classes: Iterable[Hashable]) -> None:
        self.whole = Counters()
        self._of_class = {key: Counters() for key in classes}

    def __getitem__(self, key: Hashable) -> Counters:
        """That of one class."""
        return self._of_class[key]

    def of(self, key: Hashable) -> Iterable[Counters]:
        """Where it is entered what becomes of a batch: with all, and with its class."""
        return (self.whole, self._of_class[key]) if self._of_class else (self.whole,)

    def enter_verdicts(self, key: Hashable, verdicts: Collection[Verdict]) -> None:
        """Count what becomes of some members of a failed batch."""
        for counters in self.of(key):
            counters.verdicts.update(verdicts)

    def enter(self, jobs: Sequence[Job], outcome: JobOutcome) -> None:
        """Some requests have ended without a batch, or before theirs."""
        self.whole.enter(outcome, len(jobs))
        if self._of_class:
            for key, count in Counter(job.key for job in jobs).items():
                self._of_class[key].enter(outcome, count)
