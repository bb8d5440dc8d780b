"""One connection of a client, as aiohttp serves it, with the gaps closed that it leaves to us."""

import asyncio
import logging
from functools import partial
from time import monotonic
from typing import Any, cast

from aiohttp import HttpVersion11, StreamReader, web
from aiohttp.http import HttpRequestParser, RawRequestMessage
from aiohttp.streams import EMPTY_PAYLOAD
from aiohttp.web_protocol import RequestPayloadError

from adaptive_batching.core import Passage
from adaptive_batching.marshal.answer import status_of
from adaptive_batching.marshal.fast_path import FastPath, Waiting
from adaptive_batching.marshal.kernel_wait import KernelWait
from adaptive_batching.marshal.refusals import Refusals
from adaptive_batching.marshal.rejections import Rejected, rejection
from adaptive_batching.marshal.request_ids import new_request_id
from adaptive_batching.marshal.untainted import UntaintedParser

_COME_AGAIN = 503
_log = logging.getLogger("adaptive_batching.marshal")


class Connection(web.RequestHandler):
    """Knows when its last request came, and answers what can't be parsed as every other error.

    aiohttp would echo the client's input.

    Attributes:
        unread: Seconds for which the last bytes lay in the kernel, at the least.
        read: When they were read (monotonic seconds).
        prompt: Whether nothing was being answered then, so that they need not wait for that.
    """

    __slots__ = (
        "_fast_path",
        "_kernel_wait",
        "_paced",
        "_parked",
        "_refusals",
        "_socket",
        "_visit",
        "prompt",
        "read",
        "unread",
    )

    def __init__(
        self,
        *arguments: Any,
        fast_path: FastPath | None,
        kernel_wait: KernelWait,
        refusals: Refusals,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        make = partial(
            HttpRequestParser,
            self,
            self._loop,
            self._read_bufsize,
            max_line_size=self.max_line_size,
            max_field_size=self.max_field_size,
            max_headers=self.max_headers,
            payload_exception=RequestPayloadError,
            auto_decompress=options["auto_decompress"],
            max_msg_queue_size=self._max_msg_queue_size,
        )
        self._parser: Any = UntaintedParser(make)
        self._fast_path, self._kernel_wait, self._refusals = fast_path, kernel_wait, refusals
        self._visit: Waiting | None = None
        self._paced = False
        self._parked: asyncio.Future[None] | None = None  # aiohttp's `_waiter` during a visit

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        self._socket: Any = transport.get_extra_info("socket")
        self.read, self.unread, self.prompt = monotonic(), 0.0, True
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

    def data_received(self, data: bytes) -> None:
        """Called by asyncio, and by aiohttp without data to go on with what it has already."""
        if not data:
            super().data_received(data)
            return
        self.read = now = monotonic()
        self.unread = self._kernel_wait.of(self._socket, now)
        self.prompt = not self._request_in_progress and not self._messages
        waiter = self._waiter
        if self._fast_path is None or waiter is None or waiter.done():
            super().data_received(data)
            return
        self._waiter = None  # so that what is parsed wakes nobody yet
        super().data_received(data)
        if self._messages and self._is_plain() and self._shortened(self._fast_path, waiter):
            return
        self._waiter = waiter
        if self._messages:
            waiter.set_result(None)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Called by aiohttp."""
        if request.writer.output_size:
            raise ConnectionError("the answer has begun already, and can't become an error")
        name = new_request_id()
        if status < 500:
            _log.debug("request %s can't be parsed: %r", name, message)
        else:
            _log.error("request %s failed", name, exc_info=exc)
        code = "malformed" if status < 500 else "internal"
        return rejection(Rejected(status, code, closes=True), name)

    def _is_plain(self) -> bool:
        """Whether a request is all there, and nothing has to be known of its connection."""
        (message, payload), *more = self._messages
        if more or not isinstance(message, RawRequestMessage):
            return False
        if payload is EMPTY_PAYLOAD or not payload.is_eof():
            return False
        if self._reading_paused:  # by a large body, until somebody reads it
            return False
        if message.should_close or message.upgrade or message.version != HttpVersion11:
            return False
        # No answer to HEAD has a body; RFC 9112, 3.2.2: a whole URL, as to a proxy.
        if message.method == "HEAD" or not message.path.startswith("/"):
            return False
        # Who does not read is not to pile up answers.
        return not cast("asyncio.Transport", self.transport).get_write_buffer_size()

    def _shortened(self, fast_path: FastPath, waiter: "asyncio.Future[None]") -> bool:
        """Let the one request that has come be answered without a task of its own, if that can be.

        aiohttp's own task is left waiting meanwhile: it has seen nothing of it.
        """
        message, payload = cast("tuple[RawRequestMessage, StreamReader]", self._messages[0])
        if self.unread or fast_path.pressed:
            refusal = fast_path.turn_away(message, self.unread, self.read)
            if refusal is not None:
                self._accept()
                self._refuse(refusal, waiter)
                return True
        body = b"".join(payload._buffer)  # noqa: SLF001  left there, in case it needs aiohttp's task
        try:
            visit = fast_path.begin(message, body, self.read - self.unread, self._respond)
        except Exception:  # noqa: BLE001  a client gets an answer, whatever went wrong
            _log.exception("a request could not be begun; it is begun again with a task of its own")
            return False
        if visit is None:
            return False
        self._accept()
        if isinstance(visit, bytes):
            self._refuse(visit, waiter)
        else:
            self._visit, self._parked, self._request_in_progress = visit, waiter, True
        return True

    def _accept(self) -> None:
        """What aiohttp does with the request whose turn has come."""
        assert self._parser is not None
        assert self._manager is not None
        self._messages.clear()
        self._parser.message_consumed()
        self._manager.requests_count += 1

    def _send(self, answer: bytes) -> None:
        """What aiohttp does with an answer."""
        cast("asyncio.Transport", self.transport).write(answer)
        self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout

    def _refuse(self, answer: bytes, waiter: "asyncio.Future[None]") -> None:
        """Be done with a request at once, but with the next one perhaps not.

        Only where requests lie unread is there too much to do; that those do which were held up
        here says nothing.
        """
        self._send(answer)
        self._waiter = waiter
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


def notice(request: web.BaseRequest, passage: Passage) -> float:
    """The turn of a request has come: learn from that, and return when its bytes came."""
    connection = cast("Connection", request.protocol)
    if connection.prompt:
        connection.prompt = False  # what came with it has to wait for its answer
        now = monotonic()
        passage.noticed(connection.unread, now - connection.read, now)
    return connection.read - connection.unread
