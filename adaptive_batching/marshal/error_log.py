"""What a client is not told, said in the log under the id that the client was given."""

import asyncio
import logging
from dataclasses import dataclass

from adaptive_batching.marshal.rejections import (
    HANDLER_ERROR,
    PlainAnswer,
    Rejected,
    refusal,
    status_and_code,
)
from adaptive_batching.units import format_duration

_QUIET = 1.0  # seconds without an error of a kind, after which its burst is over
_PROGRESS = 60.0  # seconds after which a burst that goes on is told of again

_log = logging.getLogger("adaptive_batching.marshal")

_Kind = tuple[str, str, str]  # path, code, exception: a message may be another for every request


@dataclass(slots=True)
class _Burst:
    """Errors of one kind that come one upon another.

    Attributes:
        told: When the last line about it was written (seconds).
        more: Errors since then.
        seen: How many of them were there at the last look.
    """

    told: float
    more: int = 0
    seen: int = 0


class ErrorLog:
    """Enters errors: the first of a burst at once, and at its end how many more there were.

    A batch's members all fail together, and so does everything while something is broken, or too
    much comes in.
    """

    def __init__(self) -> None:
        self._bursts: dict[_Kind, _Burst] = {}

    def enter(self, error: Exception, request_id: str, path: str) -> None:
        """Say what happened to a request: a client's own mistakes only to those who debug.

        Args:
            error: What went wrong.
            request_id: What the client was told.
            path: The endpoint, or another one of a few names: not what a client chose.
        """
        status, code = status_and_code(error)
        about = {"request_id": request_id, "endpoint": path, "code": code}
        if status < 500 or isinstance(error, Rejected):
            _log.debug("request %s: %s: %r", request_id, code, error, extra=about)
            return
        kind = (path, code, type(error).__qualname__)
        burst = self._bursts.get(kind)
        if burst is not None:
            burst.more += 1
            return
        loop = asyncio.get_running_loop()
        self._bursts[kind] = _Burst(loop.time())
        loop.call_later(_QUIET, self._look, kind, loop)
        trace = error if (status, code) == HANDLER_ERROR else None
        line = "request %s: %s: %s: %r"
        _log.warning(line, request_id, path, code, error, exc_info=trace, extra=about)

    def answer(self, error: Exception, request_id: str, path: str) -> PlainAnswer:
        """Enter an error, and return what its client is told; see `enter`."""
        self.enter(error, request_id, path)
        return refusal(error, request_id)

    def _look(self, kind: _Kind, loop: asyncio.AbstractEventLoop) -> None:
        """Whether a burst is over; if it lasts, it is told of once a minute."""
        burst, now = self._bursts[kind], loop.time()
        lasts = burst.more > burst.seen
        if burst.more and (not lasts or now >= burst.told + _PROGRESS):
            _sum_up(kind, burst.more, now - burst.told)
            burst.told, burst.more = now, 0
        burst.seen = burst.more
        if lasts:
            loop.call_later(_QUIET, self._look, kind, loop)
        else:
            del self._bursts[kind]


def _sum_up(kind: _Kind, more: int, seconds: float) -> None:
    path, code, name = kind
    within = format_duration(seconds)
    about = {"endpoint": path, "code": code, "count": more}
    _log.warning(
        "%s: %s: %s: %d more like it within %s", path, code, name, more, within, extra=about
    )
