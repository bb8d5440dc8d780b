"""One connection of a client whose requests may take the fast path."""

import asyncio
import logging
from time import monotonic
from typing import Any, cast

from aiohttp import HttpVersion11, StreamReader
from aiohttp.http import RawRequestMessage
from aiohttp.streams import EMPTY_PAYLOAD

from adaptive_batching.marshal.http.answer import status_of
from adaptive_batching.marshal.http.connection import Connection
from adaptive_batching.marshal.http.fast_path import FastPath, Waiting
from adaptive_batching.marshal.http.known_heads import KnownHeads
from adaptive_batching.marshal.http.read_size import read_little
from adaptive_batching.marshal.http.refusals import Refusals

_COME_AGAIN = 503
_log = logging.getLogger("adaptive_batching.marshal")


class FastConnection(Connection):
    """Keeps aiohttp's task waiting while a request that does not need it is answered.

    Args:
        fast_path: May answer requests without what aiohttp makes for each.
        known_heads: What came before, on any connection.
        refusals: Says when who was refused is looked at again.
    """

    __slots__ = (
        "_fast_path",
        "_in_step",
        "_known_heads",
        "_paced",
        "_parked",
        "_refusals",
        "_visit",
    )

    def __init__(
        self,
        *arguments: Any,
        fast_path: FastPath,
        known_heads: KnownHeads,
        refusals: Refusals,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self._fast_path, self._known_heads, self._refusals = fast_path, known_heads, refusals
        self._in_step = True  # the parser has been fed with whole requests, one at a time
        self._visit: Waiting | None = None
        self._paced = False
        self._parked: asyncio.Future[None] | None = None  # aiohttp's `_waiter` during a visit

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        read_little(transport)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Called by asyncio."""
        visit, self._visit, self._parked = self._visit, None, None
        super().connection_lost(exc)
        if visit is not None:
            visit.leave()

    def resume_writing(self) -> None:
        """Called by asyncio."""
        super().resume_writing()
        if self._parked is not None and self._visit is None:
            self._go_on()

    def take(self, data: bytes) -> None:
        """Let what has come take the fast path, if it can; aiohttp's task is woken for the rest."""
        waiter = self._waiter
        if waiter is None or waiter.done() or not self._is_free():
            self._parse(data)
            return
        known = self._known_heads.recall(data) if self._in_step else None
        if known is not None:
            if not self._shortened(*known):
                super().take(data)
            return
        self._waiter = None  # so that what is parsed wakes nobody yet
        whole = self._parse(data)
        self._waiter = waiter
        if whole is not None and self._shortened(*whole):
            self._messages.clear()
            self._parser.message_consumed()
        elif self._messages:
            waiter.set_result(None)

    def _parse(self, data: bytes) -> tuple[RawRequestMessage, bytes] | None:
        """Parse what has come, and return it with its body if that is one request for the path."""
        alone, in_step = not self._messages, self._in_step
        self._in_step = False
        super().take(data)
        whole = self._whole() if alone else None
        if in_step and whole is not None:  # else the bytes may mean something by what came before
            self._in_step = self._known_heads.learn(data, *whole)
        return whole

    def _is_free(self) -> bool:
        """Whether the connection stays, and who reads no answers piles none up."""
        if self._close or self._force_close:
            return False
        return not cast("asyncio.Transport", self.transport).get_write_buffer_size()

    def _whole(self) -> tuple[RawRequestMessage, bytes] | None:
        """The one request that has come, if it is all there and needs nothing of its connection."""
        if len(self._messages) != 1 or self._reading_paused:  # until somebody reads its large body
            return None
        message, payload = cast("tuple[RawRequestMessage, StreamReader]", self._messages[0])
        if not isinstance(message, RawRequestMessage):  # an error
            return None
        if payload is EMPTY_PAYLOAD or not payload.is_eof():
            return None
        if message.should_close or message.upgrade or message.version != HttpVersion11:
            return None
        # No answer to HEAD has a body; RFC 9112, 3.2.2: a whole URL, as to a proxy; a fragment.
        if message.method == "HEAD" or not message.path.startswith("/") or "#" in message.path:
            return None
        return message, b"".join(payload._buffer)  # noqa: SLF001  left there for aiohttp's task

    def _shortened(self, message: RawRequestMessage, body: bytes) -> bool:
        """Let a request be answered without a task of its own, if that can be.

        aiohttp's own task is left waiting meanwhile: it has seen nothing of it.
        """
        visit = self._begun(message, body)
        if visit is None:
            return False
        assert self._manager is not None
        self._manager.requests_count += 1
        if isinstance(visit, bytes):
            self._refuse(visit)
        else:
            self._visit, self._request_in_progress = visit, True
            self._parked, self._waiter = self._waiter, None
        return True

    def _begun(self, message: RawRequestMessage, body: bytes) -> Waiting | bytes | None:
        """What waits for an answer to a request; or all of the answer; or None; see `FastPath`."""
        fast_path = self._fast_path
        if self.unread or fast_path.pressed:
            refusal = fast_path.turn_away(message, self.unread, self.read)
            if refusal is not None:
                return refusal
        try:
            return fast_path.begin(message, body, self.read - self.unread, self._respond)
        except Exception:  # noqa: BLE001  a client gets an answer, whatever went wrong
            _log.exception("a request could not be begun; it is begun again with a task of its own")
            return None

    def _send(self, answer: bytes) -> None:
        """What aiohttp does with an answer."""
        cast("asyncio.Transport", self.transport).write(answer)
        self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout

    def _refuse(self, answer: bytes) -> None:
        """Be done with a request at once, but with the next one perhaps not.

        Only where requests lie unread is there too much to do; that those do which were held up
        here says nothing.
        """
        self._send(answer)
        paced, self._paced = self._paced, False
        if paced or not self.unread or status_of(answer) != _COME_AGAIN:
            return
        again = self._refusals.next_look(self.read, monotonic())
        if again is not None:
            self._paced = True
            self._pause_transport_reading()
            self._loop.call_at(again, self._read_on)

    def _read_on(self) -> None:
        if not (self._reading_paused or self._buffer_paused):
            self._resume_transport_reading()

    def _respond(self, answer: bytes, closes: bool) -> None:  # noqa: FBT001  a callback
        """The visit ends, once its client has read enough of the answer."""
        self._visit = None
        if self.transport is None:  # it is being closed
            return
        self._close |= closes
        self._send(answer)
        if not self.writing_paused:
            self._go_on()

    def _go_on(self) -> None:
        """Let aiohttp's task see to what has come meanwhile."""
        waiter, self._parked = cast("asyncio.Future[None]", self._parked), None
        self._waiter, self._request_in_progress = waiter, False
        if self._handler_waiter is not None and not self._handler_waiter.done():
            self._handler_waiter.set_result(None)
        if self._close:
            self.force_close()
        elif self._messages and not waiter.done():
            waiter.set_result(None)
        elif self._keepalive_handle is None:  # it rang meanwhile
            self._keepalive_handle = self._loop.call_at(
                self._next_keepalive_close_time, self._process_keepalive
            )
