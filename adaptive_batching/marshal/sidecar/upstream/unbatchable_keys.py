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
    """Remembers keys for a minute, and twice as long each time that it was not to be so again."""

    def __init__(self) -> None:
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()

    def __len__(self) -> int:
        """Keys that are remembered, those that are being tried again among them."""
        return len(self._entries)

    def enter(self, key: Hashable, now: float, wait: float = _FIRST_WAIT) -> None:
        """A batch of that key was answered with what can't be shared out.

        Args:
            key: The batch key.
            now: The present (seconds).
            wait: Seconds until a batch is tried again, the first time; infinite for never.
        """
        entry = self._entries.pop(key, None)
        if entry is None:
            entry = _Entry(now + wait, wait)
        elif now >= entry.until:  # not one of those that were under way when the first came back
            longer = max(wait, min(2 * entry.wait, _LONGEST_WAIT))
            entry = _Entry(now + longer, longer)
        elif wait > entry.wait:
            entry = _Entry(now + wait, wait)
        self._entries[key] = entry
        if len(self._entries) > _REMEMBERED:
            self._entries.popitem(last=False)

    def holds(self, key: Hashable, now: float) -> bool:
        """Whether requests of that key are sent alone now."""
        entry = self._entries.get(key)
        return entry is not None and now < entry.until
