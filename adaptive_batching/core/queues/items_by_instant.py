"""How many items there are up to an instant, whatever comes and goes."""

from collections.abc import Iterable
from struct import Struct

_FLOAT, _BITS = Struct("<d"), Struct("<q")
_COARSE = 39  # bits of a float left out: instants differ by one part in 8,192 of their distance
_DIGITS = 8  # of three bits each: what is left of 64 bits without the sign


class ItemsByInstant:
    """Sums of items by intervals, eight intervals, 64 and so on.

    An interval is a share of its distance from the origin, so that it is short for short promises
    and long for long ones. A change takes eight steps and a question 64 at most, however many items
    there are.

    Args:
        origin: Seconds; instants before it count as it.
        known: Instants, each with its items, more than 0.
    """

    __slots__ = ("_levels", "_origin")

    def __init__(self, origin: float, known: Iterable[tuple[float, int]] = ()) -> None:
        self._origin = origin
        level = _by_interval((self._interval(instant), items) for instant, items in known)
        self._levels = [level]
        while len(self._levels) < _DIGITS:  # far faster than to add them one by one
            level = _by_interval((interval >> 3, items) for interval, items in level.items())
            self._levels.append(level)

    def add(self, instant: float, items: int) -> None:
        """Let there be more items at an instant, or fewer if they are negative."""
        interval = self._interval(instant)
        for level in self._levels:
            level[interval] = level.get(interval, 0) + items
            if not level[interval]:
                del level[interval]
            interval >>= 3

    def until(self, instant: float) -> int:
        """Items up to an instant, those that come later in the same interval included."""
        if instant < self._origin:
            return 0
        total, end = 0, self._interval(instant) + 1
        for level in self._levels:
            while end & 7:
                end -= 1
                total += level.get(end, 0)
            end >>= 3
        return total

    def _interval(self, instant: float) -> int:
        """The first bits of the distance as a float: they grow with it."""
        (bits,) = _BITS.unpack(_FLOAT.pack(max(instant - self._origin, 0.0)))
        return int(bits >> _COARSE)


def _by_interval(known: Iterable[tuple[int, int]]) -> dict[int, int]:
    """The items of each interval."""
    level: dict[int, int] = {}
    for interval, items in known:
        level[interval] = level.get(interval, 0) + items
    return level
