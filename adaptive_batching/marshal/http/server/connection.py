"""One connection of a client: where its requests begin and end, and whose turn it is.

llhttp frames the messages, by its public callbacks. A request that the handler can answer from its
whole body is answered in place; every other one is passed on to aiohttp, see `passed`. Requests are
answered one at a time, in their order.
"""

import asyncio
import logging
import select
from collections import deque
from contextlib import suppress
from contextvars import copy_context
from time import monotonic
from typing import TYPE_CHECKING, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from adaptive_batching.marshal.http import limits
from adaptive_batching.marshal.http.error_responses import Rejected
from adaptive_batching.marshal.http.handler import InFlight, Keep
from adaptive_batching.marshal.http.headers import text_of
from adaptive_batching.marshal.http.request import Request, asks_for_websocket, check_head
from adaptive_batching.marshal.http.response import WITHOUT_BODY, Response, head_of
from adaptive_batching.marshal.http.server.passed import PassedRequest, head_written_anew

if TYPE_CHECKING:
    from adaptive_batching.marshal.http.server.server import Server

_log = logging.getLogger("adaptive_batching.marshal")

_LARGE = 2**16  # bytes of a body that are written by themselves: a copy would cost more
_COME_AGAIN = 503
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_HUNG_UP: int = getattr(select, "POLLRDHUP", 0)  # Linux; elsewhere poll(2) tells it unasked


class Connection(asyncio.BufferedProtocol):
    """Frames requests, has them answered in their order, and ends when a client costs too much.

    Args:
        server: What the connection belongs to.
    """

    def __init__(self, server: "Server") -> None:
        self._server = server
        self._handler = server.handler
        self._parser = HttpRequestParser(self)
        self._url = b""
        self._pairs: list[tuple[bytes, bytes]] = []
        self._unframed = 0  # bytes since the parser last got on with a message
        self._waiting: deque[Request | Response] = deque()  # each for its turn
        self._answering: Request | None = None
        self._in_flight: InFlight | PassedRequest | None = None
        # The request whose head is there and whose body is not, and what becomes of that: it is
        # collected until its turn, kept, streamed to aiohttp, or dropped if it was answered before.
        self._arriving: Request | None = None
        self._keep: Keep | None = None
        self._body_timer: asyncio.TimerHandle | None = None
        self._streaming: PassedRequest | None = None
        self._drops_body = False
        self._awaits_tunnel = False  # the last request asks for one
        self._behind = b""  # what came behind it
        self._tunnel: asyncio.StreamReader | None = None
        self._ends = self._lingers = False  # no more requests are taken; something else may come
        self._reads, self._is_last = True, False
        self._holds_writing = self._holds_body = self._is_paced = False
        self._read_at = self._unread = 0.0
        self._unsent = 0  # bytes that were to be written when that was looked at last

    # -------------------------------------------------------------------------- called by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; called by the loop."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(limits.UNREAD)
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        self._idle_until = self._loop.time() + limits.IDLE
        self._timer = self._loop.call_at(self._idle_until, self._look_whether_idle)
        self._server.opened(self, self._transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """End, with the client gone; called by the loop."""
        self._ends = True
        self._timer.cancel()
        self._drop_waiting()
        if self._tunnel is not None:
            self._tunnel.feed_eof()
        in_flight, self._in_flight = self._in_flight, None
        if isinstance(in_flight, PassedRequest):
            in_flight.leave(exc)
        elif in_flight is not None:
            in_flight.leave()
        self._server.closed(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where to put what is read next; called by the loop.

        All connections share it, for what is read is looked at before anything else is read.
        """
        buffer, arriving = self._server.buffer, self._arriving
        if arriving is None and self._tunnel is None:
            return buffer[: limits.READ]
        if arriving is None or arriving.length is None:
            return buffer[: limits.CHUNKED_READ]
        return buffer[: max(limits.READ, min(arriving.length - arriving.size, limits.BODY_READ))]

    def buffer_updated(self, nbytes: int) -> None:
        """Take what has been read; called by the loop."""
        self._read_at = monotonic()
        self._unread = self._server.read_lag.of(self._read_at)
        data = self._server.buffer[:nbytes]
        if self._tunnel is not None:
            self._tunnel.feed_data(bytes(data))
        elif self._awaits_tunnel:
            self._behind += data
        elif not self._ends:
            is_prompt = self._in_flight is None and not self._waiting
            self._frame(data)
            self._go_on(is_prompt=is_prompt)
        self._regulate()

    def eof_received(self) -> bool:
        """End: a client that sends no more wants no answer either; called by the loop.

        In a tunnel that is for the server to say, where a connection can be closed by halves.
        """
        if self._tunnel is None:
            return False
        self._tunnel.feed_eof()
        return self._transport.can_write_eof()

    def pause_writing(self) -> None:
        """Stop: the client reads too slowly; called by the loop."""
        self._holds_writing = True
        if isinstance(self._in_flight, PassedRequest):
            self._in_flight.pause_writing()

    def resume_writing(self) -> None:
        """Go on: the client has read enough; called by the loop."""
        self._holds_writing = False
        if isinstance(self._in_flight, PassedRequest):
            self._in_flight.resume_writing()
        self._go_on()
        self._regulate()

    # ------------------------------------------------------------------------ called by the parser

    def on_url(self, url: bytes) -> None:
        """Begin a request, or go on with its target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; trailers, which come after the body, are dropped."""
        if self._arriving is None:
            self._pairs.append((name, value))

    def on_headers_complete(self) -> None:
        """Take the head."""
        if self._unframed > limits.HEAD or len(self._pairs) > limits.HEADERS:
            self._check_size()
        parser, came = self._parser, self._read_at - self._unread
        request = Request(parser.get_method().decode(), text_of(self._url), self._pairs, came)
        self._url, self._pairs = b"", []
        request.unread = self._unread
        request.keeps_alive = parser.should_keep_alive()
        check_head(request, parser.get_http_version())
        self._arriving = request
        self._server.requests_count += 1

    def on_body(self, piece: bytes) -> None:
        """Take some of a body."""
        self._unframed = 0
        assert self._arriving is not None
        self._arriving.size += len(piece)
        if self._streaming is not None:
            self._streaming.feed(piece)
        elif not self._drops_body:
            self._arriving.take(piece)

    def on_message_complete(self) -> None:
        """The request is whole."""
        self._unframed = 0
        request, self._arriving = self._arriving, None
        assert request is not None
        request.is_whole = True
        if self._streaming is not None:
            self._streaming.feed_end()
            self._streaming = None
        elif self._drops_body:
            self._drops_body = False
            self._idle_until = self._loop.time() + limits.IDLE  # as after any answer
        else:
            if self._keep is not None:
                self._stop_keeping()
            self._waiting.append(request)
        self._ends |= not request.keeps_alive

    # --------------------------------------------------------------------------------- its messages

    def _frame(self, data: bytes | memoryview) -> None:
        """Find where requests begin and end in what has been read."""
        self._unframed += len(data)
        rest = None
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            rest = data[upgrade.args[0] :]
        except HttpParserError as error:
            if not self._ends:  # what follows `Connection: close` is not looked at
                self._end_framing(error.__context__)
        else:
            if self._unframed > limits.HEAD + limits.READ:
                self._end_framing(self._too_large())
        if rest is not None:  # no more in there: an error that it meets has a context of its own
            self._meet_upgrade(rest)

    def _check_size(self) -> None:
        """See to it that a head is not too large: what has been read may be more than that.

        Raises:
            Rejected: It is.
        """
        size = len(self._url) + sum(len(name) + len(value) for name, value in self._pairs)
        if size > limits.HEAD or len(self._pairs) > limits.HEADERS:
            raise self._too_large()

    def _meet_upgrade(self, rest: bytes | memoryview) -> None:
        """Another protocol is to be spoken after the last request.

        llhttp skips its body then. Where that is not granted it is as if it had not been asked for
        (RFC 9110, 7.8): the request is framed once more, without the header.
        """
        request = self._waiting[-1]
        assert isinstance(request, Request)
        if self._handler.tunnels and asks_for_websocket(request):
            request.asks_for_tunnel = self._awaits_tunnel = True
            self._behind = bytes(rest)
            return
        self._waiting.pop()
        self._ends = False  # its body may follow
        self._parser = HttpRequestParser(self)
        self._frame(head_written_anew(request, without="upgrade"))
        if not self._ends:
            self._frame(rest)

    def _end_framing(self, error: BaseException | None) -> None:
        """Answer what came before, then tell the client what is wrong, and end.

        Args:
            error: What was wrong with a head; None for bytes that llhttp does not understand.
        """
        self._ends = self._lingers = True
        if not isinstance(error, Exception):
            error = Rejected(400, "malformed", closes=True)
        if self._streaming is not None:
            self._is_last = True
            self._streaming.feed_error()
            self._streaming = self._arriving = None
        elif self._drops_body:
            self._close()  # its answer has left, and a second one would be another request's
        else:
            self._drop_arriving()
            self._waiting.append(self._handler.refusal(None, error))

    def _too_large(self) -> Rejected:
        if len(self._url) > sum(len(name) + len(value) for name, value in self._pairs):
            return Rejected(414, "target_too_long", closes=True)
        return Rejected(431, "headers_too_large", closes=True)

    # ----------------------------------------------------------------------------------- its turns

    def _go_on(self, *, is_prompt: bool = False) -> None:
        """Turn to the requests that wait, then to the one that is arriving."""
        while self._waiting and self._is_free():
            waiting = self._waiting.popleft()
            if isinstance(waiting, Response):
                self._send(waiting)
            else:
                waiting.is_prompt, is_prompt = is_prompt, False
                self._begin(waiting)
        arriving = self._arriving
        if arriving is None or self._streaming is not None or self._drops_body:
            return
        if self._keep is not None:
            self._keep_more(arriving, self._keep)
        elif self._is_free():
            self._admit(arriving)

    def _is_free(self) -> bool:
        """Whether the next request has its turn: clients that read no answers pile none up."""
        return not (self._in_flight or self._holds_writing or self._transport.is_closing())

    def _begin(self, request: Request) -> None:
        """Let a request that is whole have its answer."""
        self._answering = request
        try:
            begun = self._handler.begin(request, self._respond)
        except Exception:  # noqa: BLE001  a client gets an answer, whatever went wrong
            _log.exception("a request could not be begun")
            self._handler.drop(request)
            begun = self._handler.refusal(request, Rejected(500, "internal"))
        if begun is None:
            self._pass_on(request)
        elif isinstance(begun, Response):
            self._send(begun)
            self._pace(begun)
        else:
            self._in_flight = begun

    def _admit(self, request: Request) -> None:
        """Keep the body that is arriving, or pass it on."""
        try:
            keep = self._keep = self._handler.keep(request)
        except Exception as error:  # noqa: BLE001  a client gets an answer, whatever went wrong
            self._refuse(request, error)
            return
        if keep is None:
            self._pass_on(request)
            return
        self._body_timer = self._loop.call_later(keep.seconds, self._body_is_late)
        self._keep_more(request, keep)
        if self._keep is not None and request.waits_for_continue():
            self._transport.write(_CONTINUE)

    def _keep_more(self, request: Request, keep: Keep) -> None:
        """Count what has arrived of a body that is kept."""
        if request.size <= keep.limit:
            try:
                self._handler.hold(request, request.size)
            except Exception as error:  # noqa: BLE001  a client gets an answer, whatever went wrong
                self._refuse(request, error)
        elif keep.passes_on:
            self._stop_keeping()
            self._handler.drop(request)
            self._pass_on(request)
        else:
            self._refuse(request, Rejected(413, "body_too_large", closes=True))

    def _body_is_late(self) -> None:
        if self._arriving is not None:
            self._refuse(self._arriving, Rejected(408, "body_timeout", closes=True))
            self._regulate()

    def _refuse(self, request: Request, error: Exception) -> None:
        """Answer a request whose body need not arrive any more."""
        self._stop_keeping()
        self._handler.drop(request)
        self._answering = request
        self._send(self._handler.refusal(request, error))

    def _drop_waiting(self) -> None:
        """Turn to no request any more: one that was kept and had to wait all the same counts."""
        for each in self._waiting:
            if isinstance(each, Request):
                self._handler.drop(each)
        self._waiting.clear()
        self._drop_arriving()

    def _drop_arriving(self) -> None:
        """Expect no more of a body: the connection ends, or what comes can't be told apart."""
        arriving, self._arriving = self._arriving, None
        if arriving is not None and self._keep is not None:
            self._handler.drop(arriving)
        self._stop_keeping()

    def _stop_keeping(self) -> None:
        self._keep = None
        if self._body_timer is not None:
            self._body_timer.cancel()
            self._body_timer = None

    # --------------------------------------------------------------------------------- its answers

    def _respond(self, response: Response | None) -> None:
        """Send the answer that was waited for, or pass the request on; called by the handler."""
        self._in_flight = None
        if self._transport.is_closing():
            return
        if response is None:
            assert self._answering is not None
            self._context.run(self._pass_on, self._answering)
        else:
            self._send(response)
            if self._waiting or self._arriving is not None:
                self._context.run(self._go_on)  # the answer comes in the context of its batch
        if not self._reads or self._in_flight is not None:
            self._regulate()

    def _send(self, response: Response) -> None:
        """Write an answer: to the request that is being answered, or to bytes that are none."""
        request = self._answering
        closes = response.closes or self._handler.draining or request is None
        said, body = "", response.body
        if request is not None:
            closes = closes or not request.keeps_alive
            said = "keep-alive" if request.is_http_1_0 else ""
            if request.method == "HEAD" or response.status in WITHOUT_BODY:
                body = b""
        head = head_of(response, "close" if closes else said)
        if len(body) < _LARGE:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._transport.write(body)
        self._after_answer(keeps_alive=not closes)

    def _after_answer(self, *, keeps_alive: bool) -> None:
        """Be ready for the next request, or end."""
        answered, self._answering = self._answering, None
        self._idle_until = self._loop.time() + limits.IDLE
        if answered is not None and answered is self._arriving:
            self._drops_body, self._streaming = True, None
            answered.pieces = []
            self._expect_end_within(limits.LINGERING)
        if self._awaits_tunnel and not self._waiting:
            self._decline_tunnel()
        if self._is_last or not keeps_alive:
            self._close()

    def _close(self) -> None:
        """End once what was written has left.

        A client that still sends would lose its answer if the rest was not read for a while.
        """
        tunnel, self._tunnel = self._tunnel, None
        lingers = self._lingers or self._drops_body or bool(self._waiting)
        lingers |= tunnel is not None and not tunnel.at_eof()
        self._ends = True
        self._drop_waiting()
        if not lingers:
            self._transport.close()
            return
        if self._transport.can_write_eof():
            with suppress(OSError):  # the client has gone, of which the loop tells later
                self._transport.write_eof()
        self._expect_end_within(limits.LINGERING)

    def _pace(self, response: Response) -> None:
        """Look at a refused client's next request later, where requests lie unread.

        Clients that were held up here themselves say nothing about how much there is to do.
        """
        was_paced, self._is_paced = self._is_paced, False
        if was_paced or not self._unread or response.status != _COME_AGAIN:
            return
        again = self._server.refusals.next_look(self._read_at, monotonic())
        if again is not None:
            self._is_paced = True
            self._loop.call_at(again, self._read_on)

    def _read_on(self) -> None:
        self._is_paced = False
        self._regulate()

    # ------------------------------------------------------------------------- requests passed on

    def _pass_on(self, request: Request) -> None:
        """Let aiohttp have a request."""
        self._answering = request
        protocol = self._server.make_aiohttp_protocol()
        passed = PassedRequest(self, self._transport, request, protocol)
        self._in_flight = passed
        self._streaming = None if request.is_whole else passed

    @property
    def is_answering(self) -> bool:
        """Whether a request has begun and has no answer yet, be it passed on or not."""
        return self._in_flight is not None

    @property
    def draining(self) -> bool:
        """Whether it ends with its next answer."""
        return self._handler.draining

    def answered(self, *, keeps_alive: bool) -> None:
        """Go on: aiohttp has written the answer to a request that was passed on."""
        self._in_flight = None
        self._holds_body = False
        self._after_answer(keeps_alive=keeps_alive)
        self._go_on()
        self._regulate()

    def pause_body(self) -> None:
        """Read no more for now of what is passed on."""
        self._holds_body = True
        self._regulate()

    def resume_body(self) -> None:
        """Read on."""
        self._holds_body = False
        self._regulate()

    def open_tunnel(self, reader: asyncio.StreamReader) -> None:
        """Give all bytes from now on to a reader."""
        self._tunnel, self._ends, self._awaits_tunnel = reader, True, False
        behind, self._behind = self._behind, b""
        if behind:
            reader.feed_data(behind)
        self._regulate()

    def _decline_tunnel(self) -> None:
        """What came behind the request is HTTP, as before."""
        self._awaits_tunnel = False
        behind, self._behind = self._behind, b""
        self._parser = HttpRequestParser(self)
        self._frame(behind)

    # ------------------------------------------------------------------------- its pace and its end

    def _regulate(self) -> None:
        """Read as long as what comes is wanted now: what waits for its turn is bounded so."""
        arriving = self._arriving
        is_ahead = len(self._waiting) >= limits.PIPELINED or bool(self._behind)
        if arriving is not None and not (self._keep or self._streaming or self._drops_body):
            is_ahead = True  # its turn has not come
        reads = not (self._holds_body or self._is_paced or is_ahead)
        if reads is self._reads or self._transport.is_closing():
            return
        self._reads = reads
        if reads:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _expect_end_within(self, seconds: float) -> None:
        self._idle_until = self._loop.time() + seconds
        self._timer.cancel()
        self._timer = self._loop.call_at(self._idle_until, self._look_whether_idle)

    def _look_whether_idle(self) -> None:
        """Close a connection on which nothing has been asked, or taken, for long enough.

        A client may also have left while nothing was read, of which no loop tells.
        """
        if not self._reads and self._tunnel is None and self.has_left():
            self._transport.abort()
            return
        now, unsent = self._loop.time(), self._transport.get_write_buffer_size()
        is_taking = unsent not in (0, self._unsent)
        self._unsent = unsent
        if is_taking or self._in_flight is not None or self._keep is not None:
            self._idle_until = now + limits.IDLE
        if now >= self._idle_until:
            self._transport.abort() if self._ends or unsent else self._transport.close()
        else:
            self._timer = self._loop.call_at(self._idle_until, self._look_whether_idle)

    def has_left(self) -> bool:
        """Whether the client has hung up, be it behind bytes that have not been read."""
        poll = select.poll()
        poll.register(self._transport.get_extra_info("socket").fileno(), _HUNG_UP)
        return bool(poll.poll(0))

    def close(self) -> None:
        """End with the answer that is under way, if any, once it has left."""
        self._ends = self._is_last = True
        if self._in_flight is None:
            self._transport.close()

    def abort(self) -> None:
        """End now."""
        self._transport.abort()
