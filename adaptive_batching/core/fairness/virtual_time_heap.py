"""Finds the member that is furthest behind, where members only ever get ahead."""

from collections.abc import Hashable, ItemsView, Iterator
from heapq import heapify, heappop, heappush, heapreplace
from typing import Generic, Protocol, TypeVar


class Contender(Protocol):
    """A member that takes turns with others."""

    @property
    def waits(self) -> bool:
        """Whether there is anything to do for it."""

    @property
    def standing(self) -> tuple[float, int]:
        """What it had so far, and a number of its own; it only ever grows."""


W = TypeVar("W", bound=Contender)


class VirtualTimeHeap(Generic[W]):
    """Finds the least standing in O(log n): an entry that is too low is mended when it is first."""

    __slots__ = ("_heap", "_members")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Hashable]] = []
        self._members: dict[Hashable, W] = {}

    def __repr__(self) -> str:
        return f"<VirtualTimeHeap of {len(self._members)}>"

    def get(self, name: Hashable) -> W | None:
        """A member, which may have nothing waiting any more."""
        return self._members.get(name)

    def members(self) -> ItemsView[Hashable, W]:
        """All of them, likewise."""
        return self._members.items()

    def add(self, name: Hashable, member: W) -> None:
        """Let one take turns, in the place of another one of that name."""
        if self._members.get(name) is not member:
            self._members[name] = member
            heappush(self._heap, (*member.standing, name))
            if len(self._heap) > 2 * len(self._members) + 64:
                self._forget()

    def first(self) -> W | None:
        """The member furthest behind of those that have something to do; None if none has."""
        heap = self._heap
        while heap:
            received, number, name = heap[0]
            member = self._members.get(name)
            if member is None or not member.waits:
                heappop(heap)
                self._members.pop(name, None)
            elif (received, number) != member.standing:
                heapreplace(heap, (*member.standing, name))
            else:
                return member
        return None

    def in_turn(self) -> Iterator[W]:
        """The members that have something to do, the one furthest behind first."""
        ahead = [(entry, 0) for entry in self._heap[:1]]
        while ahead:
            entry, at = heappop(ahead)
            if at >= 0:
                for child in range(2 * at + 1, min(2 * at + 3, len(self._heap))):
                    heappush(ahead, (self._heap[child], child))
            member = self._members.get(entry[2])
            if member is None or not member.waits:
                continue
            if entry[:2] == member.standing:
                yield member
            else:
                heappush(ahead, ((*member.standing, entry[2]), -1))

    def _forget(self) -> None:
        """Drop the entries that members leave behind which come and go while none is served."""
        self._members = {name: each for name, each in self._members.items() if each.waits}
        self._heap = [(*each.standing, name) for name, each in self._members.items()]
        heapify(self._heap)
