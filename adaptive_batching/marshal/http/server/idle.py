"""When a connection has been idle for too long, and whether its client has left."""

import asyncio
import select
from typing import Protocol

from adaptive_batching.marshal.http import limits

_HUNG_UP: int = getattr(select, "POLLRDHUP", 0)  # Linux; elsewhere poll(2) tells it unasked


class Idling(Protocol):
    """A connection, as its idle timer sees it."""

    @property
    def is_busy(self) -> bool:
        """Whether something is being answered, or has a time of its own to arrive."""
        ...

    @property
    def is_abandoned(self) -> bool:
        """Whether the client has left while nothing was read, of which no loop tells."""
        ...

    @property
    def takes_requests(self) -> bool:
        """Whether more requests may come."""
        ...


class IdleTimer:
    """Closes a connection on which nothing has been asked, or taken, for long enough.

    Args:
        connection: The connection.
        transport: Its transport.

    Attributes:
        until: When it has been idle for long enough, unless something happens (loop's seconds).
    """

    def __init__(self, connection: Idling, transport: asyncio.Transport) -> None:
        self._connection = connection
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._unsent = 0  # bytes that were to be written when that was looked at last
        self.until = self._loop.time() + limits.IDLE
        self._timer = self._loop.call_at(self.until, self.look)

    def expect_end_within(self, seconds: float) -> None:
        """Close the connection in so many seconds if it is idle then."""
        self.until = self._loop.time() + seconds
        self._timer.cancel()
        self._timer = self._loop.call_at(self.until, self.look)

    def cancel(self) -> None:
        """The connection has ended."""
        self._timer.cancel()

    def look(self) -> None:
        """Close the connection if it has been idle for long enough; called by the loop."""
        if self._connection.is_abandoned:
            self._transport.abort()
            return
        now, unsent = self._loop.time(), self._transport.get_write_buffer_size()
        is_taking = unsent not in (0, self._unsent)
        self._unsent = unsent
        if is_taking or self._connection.is_busy:
            self.until = now + limits.IDLE
        if now < self.until:
            self._timer = self._loop.call_at(self.until, self.look)
        elif unsent or not self._connection.takes_requests:
            self._transport.abort()
        else:
            self._transport.close()


def has_left(transport: asyncio.Transport) -> bool:
    """Whether a client has hung up, be it behind bytes that have not been read."""
    poll = select.poll()
    poll.register(transport.get_extra_info("socket").fileno(), _HUNG_UP)
    return bool(poll.poll(0))
