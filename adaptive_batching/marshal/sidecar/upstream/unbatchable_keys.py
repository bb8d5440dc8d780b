"""Batch keys whose requests are sent alone, because their answers can't be shared out."""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

_FIRST_WAIT = 60.0  # seconds until a batch is tried again
_LONGEST_WAIT = 3600.0  # seconds
_REMEMBERED = 1024  # keys; a client may make up any number of them


@dataclass(slots=True)
class _Entry:
    until: float
    wait: float


class UnbatchableKeys:
    """Remembers keys for a minute, and twice as long each time that it was not to be so again.

    Places, which have any number of keys, are remembered for ever: a client that makes up keys
    can't have another's place forgotten. Where there are too many, no key is batched any more.
    """

    def __init__(self) -> None:
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._places: set[Hashable] = set()

    def __len__(self) -> int:
        """Keys and places that are remembered, also keys that are being tried again."""
        return len(self._entries) + len(self._places)

    def set_apart(self, place: Hashable) -> None:
        """A batch of some key of that place was answered otherwise than its members alone."""
        if len(self._places) < _REMEMBERED:
            self._places.add(place)

    def enter(self, key: Hashable, now: float) -> None:
        """A batch of that key was answered with what can't be shared out.

        Args:
            key: The batch key.
            now: The present (seconds).
        """
        entry = self._entries.pop(key, None)
        if entry is None:
            entry = _Entry(now + _FIRST_WAIT, _FIRST_WAIT)
        elif now >= entry.until:  # not one of those that were under way when the first came back
            longer = min(2 * entry.wait, _LONGEST_WAIT)
            entry = _Entry(now + longer, longer)
        self._entries[key] = entry
        if len(self._entries) > _REMEMBERED:
            self._entries.popitem(last=False)

    def holds(self, key: Hashable, place: Hashable, now: float) -> bool:
        """Whether requests of that key are sent alone now."""
        if place in self._places or len(self._places) == _REMEMBERED:
            return True
        entry = self._entries.get(key)
        return entry is not None and now < entry.until
