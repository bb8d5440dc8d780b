"""What a process does that is itself what has too much to do: it looks at requests later and later.

It would always be busy with refusals, and with requests that came too long ago. So it has to know
how long what it reads has waited for it, and how much of its time refusals take.
"""

import asyncio
from time import monotonic

_BEAT = 0.01  # seconds between two looks at the clock
_UNNOTICED = 4e-3  # seconds by which a timer is late anyway
_SHARE = 0.1  # of the time: with half of it refusals still crowded out most of the answers
_LONGEST = 0.05  # seconds; behind a proxy others' requests come on the same connection
_NOTICEABLE = 1e-3  # seconds; a shorter pause is not worth two system calls


class ReadLag:
    """How long what is read may have lain unread, as far as the event loop's lateness tells.

    A timer that is late says that the loop did not look at its connections meanwhile; what is read
    then may have come just after it looked the last time. The kernel knows it exactly, of TCP
    connections, but at a place in its answer that no header promises to keep.
    """

    def __init__(self) -> None:
        self._due = self._late = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to look at the clock; does nothing if it has begun."""
        if self._timer is None:
            self._watch(asyncio.get_running_loop())

    def stop(self) -> None:
        """Look no more: there is nothing to read."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def of(self, now: float) -> float:
        """Seconds for which what is being read may have waited.

        Args:
            now: The present (monotonic seconds).
        """
        late = now - self._due
        return max(late, self._late) if late > _UNNOTICED else self._late

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due = monotonic() + _BEAT
        self._timer = loop.call_later(_BEAT, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        late = monotonic() - self._due
        if late > _UNNOTICED:
            self._late = late
            # uvloop's timers come before the reads of their turn, and so do calls from there.
            loop.call_soon(loop.call_soon, self._forget)
        self._watch(loop)

    def _forget(self) -> None:
        self._late = 0.0


class Refusals:
    """Paces clients that were refused and ask again at once: a refusal costs as much as a request.

    Clients are told when it is worth to come again. Those that don't listen would keep a process
    so busy that it gets round to nothing else in time, and refuses ever more: an overload that does
    not end with its cause. So the next request on a connection is read when all refusals up to then
    have had their share of the time.
    """

    __slots__ = ("_booked",)

    def __init__(self) -> None:
        self._booked = 0.0

    def next_look(self, began: float, now: float) -> float | None:
        """When to read on after a refusal (monotonic seconds); None for at once.

        Args:
            began: When the refused request was read.
            now: The present, when its answer has been written.
        """
        self._booked = max(self._booked, began) + (now - began) / _SHARE
        pause = min(self._booked - now, _LONGEST)
        return now + pause if pause >= _NOTICEABLE else None
