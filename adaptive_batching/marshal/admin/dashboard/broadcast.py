"""One look a second at all endpoints, made once and written once for all viewers."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

import msgspec

from adaptive_batching.errors import Overloaded
from adaptive_batching.instrumentation.live import LiveView, View

_PERIOD = 1.0  # seconds
_MOST_VIEWERS = 64
_MOST_BUFFERED = 256 * 1024  # bytes that a viewer may be behind: more than ten seconds, usually

_log = logging.getLogger("adaptive_batching")


class Broadcast:
    """Tells viewers what happens, as server-sent events (HTML standard, 9.2).

    Args:
        live: Looks at the endpoints.
        clock: Seconds, the dispatchers'.
    """

    def __init__(self, live: LiveView, clock: Callable[[], float] = monotonic) -> None:
        self._live = live
        self._clock = clock
        self._viewers: dict[asyncio.WriteTransport, asyncio.Future[None]] = {}
        self._whole: bytes | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def viewers(self) -> int:
        """How many watch."""
        return len(self._viewers)

    def start(self) -> None:
        """Look once a second from now on, whether anybody watches or not."""
        self._tick(asyncio.get_running_loop())

    def stop(self) -> None:
        """Look no more, and end all streams. Safe to call twice, and before `start`."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for ended in self._viewers.values():
            if not ended.done():
                ended.set_result(None)

    def check_room(self) -> None:
        """See to it that one more may watch.

        Raises:
            Overloaded: Too many do.
        """
        if len(self._viewers) >= _MOST_VIEWERS:
            raise Overloaded(f"{_MOST_VIEWERS} watch already")

    def whole(self) -> bytes:
        """All that is known, as JSON."""
        if self._whole is None:
            self._whole = msgspec.json.encode(self._live.whole())
        return self._whole

    async def show(self, transport: asyncio.WriteTransport) -> None:
        """Write all that is known, then what happens, in chunks, until it is stopped.

        A browser that does not read is hung up on, and may come again: nothing is kept for it.
        """
        ended = self._viewers[transport] = asyncio.get_running_loop().create_future()
        try:
            transport.write(_chunk(b"whole", self.whole()))
            await ended
        finally:
            del self._viewers[transport]

    def look(self) -> None:
        """Look at all endpoints, and send all viewers what is new."""
        news = self._live.look(self._clock())
        self._whole = None
        if self._viewers:
            self._tell(news)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = loop.call_later(_PERIOD, self._tick, loop)
        try:
            self.look()
        except Exception:  # noqa: BLE001  the next look may be luckier; requests are not concerned
            _log.exception("the dashboard could not look at the endpoints")

    def _tell(self, news: View) -> None:
        chunk = _chunk(b"news", msgspec.json.encode(news))
        for transport in list(self._viewers):
            with suppress(ConnectionError):
                transport.write(chunk)
            if transport.get_write_buffer_size() > _MOST_BUFFERED:
                transport.abort()


def _chunk(event: bytes, data: bytes) -> bytes:
    """One event, in one chunk of HTTP/1.1."""
    told = b"event: %b\ndata: %b\n\n" % (event, data)
    return b"%x\r\n%b\r\n" % (len(told), told)
