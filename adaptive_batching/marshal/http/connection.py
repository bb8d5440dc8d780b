"""One connection of a client, as aiohttp serves it, with the gaps closed that it leaves to us."""

import asyncio
import logging
from functools import partial
from time import monotonic
from typing import Any, cast

from aiohttp import web
from aiohttp.http import HttpRequestParser
from aiohttp.web_protocol import RequestPayloadError

from adaptive_batching.core import QueueingDelay
from adaptive_batching.marshal.http.error_responses import Rejected, rejection
from adaptive_batching.marshal.http.kernel_wait import KernelWait
from adaptive_batching.marshal.http.parser import Parser
from adaptive_batching.marshal.http.request_ids import new_request_id

_log = logging.getLogger("adaptive_batching.marshal")


class Connection(web.RequestHandler):
    """Knows when its last request came, and answers what can't be parsed as every other error.

    aiohttp would echo the client's input.

    Attributes:
        unread: Seconds for which the last bytes lay in the kernel, at the least.
        read: When they were read (monotonic seconds).
        prompt: Whether nothing was being answered then, so that they need not wait for that.
    """

    __slots__ = ("_kernel_wait", "_socket", "prompt", "read", "unread")

    def __init__(self, *arguments: Any, kernel_wait: KernelWait, **options: Any) -> None:
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
        self._parser: Any = Parser(make)
        self._kernel_wait = kernel_wait

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        self._socket: Any = transport.get_extra_info("socket")
        self.read, self.unread, self.prompt = monotonic(), 0.0, True
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Called by asyncio, and by aiohttp without data to go on with what it has already."""
        if data:
            self.read = now = monotonic()
            self.unread = self._kernel_wait.of(self._socket, now)
            self.prompt = not self._request_in_progress and not self._messages
            self.take(data)
        else:
            super().data_received(data)

    def take(self, data: bytes) -> None:
        """Parse what has come, and let aiohttp's task see to it."""
        super().data_received(data)

    def log_exception(self, *arguments: Any, **options: Any) -> None:
        """Called by aiohttp; also where it goes on reading a body after the answer, in vain."""
        if not isinstance(options.get("exc_info"), RequestPayloadError):
            super().log_exception(*arguments, **options)

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


def notice(request: web.BaseRequest, passage: QueueingDelay) -> float:
    """The turn of a request has come: learn from that, and return when its bytes came."""
    connection = cast("Connection", request.protocol)
    if connection.prompt:
        connection.prompt = False  # what came with it has to wait for its answer
        now = monotonic()
        passage.noticed(connection.unread, now - connection.read, now)
    return connection.read - connection.unread
