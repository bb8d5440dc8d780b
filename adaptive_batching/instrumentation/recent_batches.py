"""The last batches of a dispatcher, with the names of the requests that were in them."""

from collections import deque
from collections.abc import Callable
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

from adaptive_batching.core import Batch, BatchRecord, Job

KEPT = 256
_MOST_MEMBERS = 128  # names that are kept of a batch: 256 of them come to some 3 MB at the most
_name: Callable[[Job], str] = attrgetter("name")


class Ran(NamedTuple):
    """A batch that has ended.

    Attributes:
        number: How many ended before it.
        record: What happened.
        members: What its requests are called, oldest first; not all of a very large batch.
    """

    number: int
    record: BatchRecord
    members: list[str]


class RecentBatches:
    """Observes one dispatcher; keeps neither items nor results.

    Args:
        most: Batches that are kept.

    Attributes:
        count: Batches that have ended.
    """

    __slots__ = ("_kept", "count")

    def __init__(self, most: int = KEPT) -> None:
        self._kept: deque[tuple[BatchRecord, list[str]]] = deque(maxlen=most)
        self.count = 0

    def batch_ended(self, batch: Batch, record: BatchRecord) -> None:
        """Keep it, and forget the oldest."""
        self._kept.append((record, list(map(_name, batch.jobs[:_MOST_MEMBERS]))))
        self.count += 1

    def newest(self, most: int = KEPT, since: int = 0) -> list[Ran]:
        """The last batches, newest first.

        Args:
            most: How many at the most.
            since: The number of the first one that is wanted.
        """
        last = self.count - 1
        newest = islice(reversed(self._kept), max(0, min(most, self.count - since)))
        return [Ran(last - back, *kept) for back, kept in enumerate(newest)]
