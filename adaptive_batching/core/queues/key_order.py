"""Queues of several batch keys in the order in which they should be served, in O(log n) of them."""

from collections.abc import Iterator
from heapq import merge
from math import inf
from operator import itemgetter

from sortedcontainers import SortedList

from adaptive_batching.core.queues.key_queue import KeyQueue

Entry = tuple[float, float, int, KeyQueue]  # instant, when its oldest came, its age, the queue


class Line:
    """Queues by an instant of each; of equals, the one with the older job, or the older queue."""

    def __init__(self) -> None:
        self.entries: dict[KeyQueue, Entry] = {}
        self._sorted = SortedList[Entry]()

    def __iter__(self) -> Iterator[tuple[float, KeyQueue]]:
        """The instants and their queues in order."""
        return ((entry[0], entry[3]) for entry in self._sorted)

    @property
    def earliest(self) -> float:
        """The first instant (seconds); `inf` if there is none."""
        return self._sorted[0][0] if self._sorted else inf

    @property
    def first(self) -> KeyQueue:
        """The first one; there must be one."""
        return self._sorted[0][3]

    def ahead_of(self, view: KeyQueue, instant: float) -> int:
        """How many others would be before a queue if that were its instant (seconds)."""
        own = self.entries.get(view)
        ahead = self._sorted.bisect_left((instant, -inf, 0, view))
        return ahead - 1 if own is not None and own[0] < instant else ahead

    def put(self, view: KeyQueue, instant: float) -> None:
        """Give a queue its place."""
        entry = (instant, view.queue.oldest.arrived, view.opened, view)
        if self.entries.get(view) != entry:
            self.drop(view)
            self.entries[view] = entry
            self._sorted.add(entry)

    def drop(self, view: KeyQueue) -> None:
        """Forget a queue in which no job waits any more."""
        entry = self.entries.pop(view, None)
        if entry is not None:
            self._sorted.remove(entry)


class QueueOrder:
    """Queues by how urgent they are, or by an instant that says what they are worth.

    Attributes:
        by_deadline: By when a job expires.
        by_worth: By what was said to `by_worth.put`; not all of them need be there.
    """

    __slots__ = ("_by_arrival", "by_deadline", "by_worth")

    def __init__(self) -> None:
        self.by_deadline = Line()
        self.by_worth = Line()
        self._by_arrival = Line()

    def __len__(self) -> int:
        return len(self.by_deadline.entries)

    def __contains__(self, view: KeyQueue) -> bool:
        return view in self.by_deadline.entries

    def put(self, view: KeyQueue, deadline: float, arrived: float) -> None:
        """Jobs wait in a queue.

        Args:
            view: The queue.
            deadline: The earliest (seconds).
            arrived: When the oldest came (seconds).
        """
        self.by_deadline.put(view, deadline)
        self._by_arrival.put(view, arrived)

    def joined(self, view: KeyQueue, deadline: float, now: float) -> None:
        """A job with this deadline has come to a queue."""
        entry = self.by_deadline.entries.get(view)
        if entry is None:
            self._by_arrival.put(view, now)
        if entry is None or deadline < entry[0]:
            self.by_deadline.put(view, deadline)

    def drop(self, view: KeyQueue) -> None:
        """No job waits in it any more."""
        for line in self.lines:
            line.drop(view)

    def move(self, view: KeyQueue, other: "QueueOrder") -> None:
        """Give a queue its place in another order."""
        for own, new in zip(self.lines, other.lines, strict=True):
            if view in own.entries:
                new.put(view, own.entries[view][0])
        self.drop(view)

    def in_turn(self, deferral: float, *, weighed: bool) -> Iterator[KeyQueue]:
        """The queues, the one to be served first at first.

        Args:
            deferral: Seconds for which a job may be put off for more urgent ones.
            weighed: Whether by what they are worth.
        """
        return (view for _, view in self.by_worth) if weighed else self._by_urgency(deferral)

    @property
    def lines(self) -> tuple[Line, ...]:
        """The queues by each of their instants."""
        return self.by_deadline, self._by_arrival, self.by_worth

    def _by_urgency(self, deferral: float) -> Iterator[KeyQueue]:
        """By deadline, but first those that have been put off for long enough."""
        put_off = ((arrived + deferral, view) for arrived, view in self._by_arrival)
        asked = set[KeyQueue]()
        for _, view in merge(self.by_deadline, put_off, key=itemgetter(0)):
            if view not in asked:
                asked.add(view)
                yield view
