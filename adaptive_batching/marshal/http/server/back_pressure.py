"""When a connection is read: as long as there is room for the bytes."""

import asyncio
from time import monotonic

from adaptive_batching.marshal.http import limits
from adaptive_batching.marshal.http.response import Response
from adaptive_batching.marshal.http.server.framing import Framing
from adaptive_batching.marshal.http.server.shedding import Refusals

_COME_AGAIN = 503


class BackPressure:
    """Pauses and resumes reading, which bounds the requests that wait for their turn.

    Args:
        framing: Has what has been read.
        transport: Of the connection.
        refusals: When refused clients are looked at again.

    Attributes:
        reads: Whether the connection is read.
        holds_body: Whether the reader of a body that is passed on has enough for now.
    """

    def __init__(self, framing: Framing, transport: asyncio.Transport, refusals: Refusals) -> None:
        self._framing = framing
        self._transport = transport
        self._refusals = refusals
        self._is_paced = False
        self.reads, self.holds_body = True, False

    def regulate(self) -> None:
        """Pause or resume reading, as things are now."""
        framing = self._framing
        is_ahead = len(framing.waiting) >= limits.PIPELINED or bool(framing.behind)
        if framing.arriving is not None and framing.body is None:
            is_ahead = True  # its turn has not come
        reads = not (self.holds_body or self._is_paced or is_ahead)
        if reads is self.reads or self._transport.is_closing():
            return
        self.reads = reads
        if reads:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def pace(self, response: Response) -> None:
        """Look at a refused client's next request later, where requests lie unread.

        Clients that were held up here themselves say nothing about how much there is to do.
        """
        was_paced, self._is_paced = self._is_paced, False
        if was_paced or not self._framing.unread or response.status != _COME_AGAIN:
            return
        again = self._refusals.next_look(self._framing.read_at, monotonic())
        if again is not None:
            self._is_paced = True
            asyncio.get_running_loop().call_at(again, self._read_on)

    def _read_on(self) -> None:
        self._is_paced = False
        self.regulate()
