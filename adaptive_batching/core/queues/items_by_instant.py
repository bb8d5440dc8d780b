"""How many items there are up to an instant, whatever comes and goes."""

_TICKS = 1024  # a second; what is nearer to each other than event-loop timers are is not told apart
_DIGITS = 10  # of three bits each: twelve days
_LAST = 8**_DIGITS - 1


class ItemsByInstant:
    """Sums of items by intervals of a tick, eight ticks, 64 and so on.

    A change takes ten steps and a question eighty at most, however many items there are.

    Args:
        origin: Seconds; instants before it count as it, those more than twelve days after it alike.
    """

    __slots__ = ("_levels", "_origin")

    def __init__(self, origin: float) -> None:
        self._origin = origin
        self._levels: list[dict[int, int]] = [{} for _ in range(_DIGITS)]

    def add(self, instant: float, items: int) -> None:
        """Let there be more items at an instant, or fewer if they are negative."""
        tick = self._tick(instant)
        for level in self._levels:
            level[tick] = level.get(tick, 0) + items
            if not level[tick]:
                del level[tick]
            tick >>= 3

    def until(self, instant: float) -> int:
        """Items up to an instant, those that come less than a tick (1 ms) after it included."""
        if instant < self._origin:
            return 0
        total, end = 0, self._tick(instant) + 1
        for level in self._levels:
            while end & 7:
                end -= 1
                total += level.get(end, 0)
            end >>= 3
        return total if not end else total + sum(self._levels[-1].values())

    def _tick(self, instant: float) -> int:
        return int(min(max(instant - self._origin, 0.0) * _TICKS, _LAST))
