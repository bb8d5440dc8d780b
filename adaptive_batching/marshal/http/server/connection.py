"""One connection of a client: whose turn it is, what is read, and when it ends.

`framing` says where requests begin and end. A request that the handler can answer from its whole
body is answered in place; every other one is passed on to aiohttp, see `passed`. Requests are
answered one at a time, in their order.
"""

import asyncio
import logging
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, cast

from adaptive_batching.marshal.http import limits
from adaptive_batching.marshal.http.error_responses import Rejected
from adaptive_batching.marshal.http.handler import InFlight
from adaptive_batching.marshal.http.request import Request
from adaptive_batching.marshal.http.response import WITHOUT_BODY, Response, head_of
from adaptive_batching.marshal.http.server.back_pressure import BackPressure
from adaptive_batching.marshal.http.server.bodies import DroppedBody, KeptBody
from adaptive_batching.marshal.http.server.framing import Framing
from adaptive_batching.marshal.http.server.idle import IdleTimer, has_left
from adaptive_batching.marshal.http.server.passed import PassedRequest

if TYPE_CHECKING:
    from adaptive_batching.marshal.http.server.server import Server

_log = logging.getLogger("adaptive_batching.marshal")

_LARGE = 2**16  # bytes of a body that are written by themselves: a copy would cost more
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Connection(asyncio.BufferedProtocol):
    """Has requests answered in their order, and ends when a client costs too much.

    Args:
        server: What the connection belongs to.
    """

    def __init__(self, server: "Server") -> None:
        self._server = server
        self._handler = server.handler
        self._framing = Framing(server)
        self._waiting = self._framing.waiting
        self._answering: Request | None = None
        self._in_flight: InFlight | PassedRequest | None = None
        self._tunnel: asyncio.StreamReader | None = None
        self._lingers = False  # after its end something may come
        self._holds_writing = self._is_last = False

    # -------------------------------------------------------------------------- called by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; called by the loop."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(limits.UNREAD)
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        self._idle = IdleTimer(self, self._transport)
        self._back_pressure = BackPressure(self._framing, self._transport, self._server.refusals)
        self._server.opened(self, self._transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """End, with the client gone; called by the loop."""
        self._framing.ends = True
        self._idle.cancel()
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
        buffer, arriving = self._server.buffer, self._framing.arriving
        if arriving is None and self._tunnel is None:
            return buffer[: limits.READ]
        if arriving is None or arriving.length is None:
            return buffer[: limits.CHUNKED_READ]
        return buffer[: max(limits.READ, min(arriving.length - arriving.size, limits.BODY_READ))]

    def buffer_updated(self, nbytes: int) -> None:
        """Take what has been read; called by the loop."""
        framing = self._framing
        framing.read_at = monotonic()
        framing.unread = self._server.read_lag.of(framing.read_at)
        data = self._server.buffer[:nbytes]
        if self._tunnel is not None:
            self._tunnel.feed_data(bytes(data))
        elif framing.awaits_tunnel:
            framing.behind += data
        elif not framing.ends:
            is_prompt = self._in_flight is None and not self._waiting
            fault = framing.feed(data)
            if fault is not None:
                self._end_framing(fault)
            self._go_on(is_prompt=is_prompt)
        self._back_pressure.regulate()

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
        self._back_pressure.regulate()

    # ----------------------------------------------------------------------------------- its turns

    def _end_framing(self, fault: Exception) -> None:
        """Answer what came before, then tell the client what is wrong, and end."""
        self._lingers = True
        framing = self._framing
        if isinstance(framing.body, PassedRequest):
            self._is_last = True
            framing.body.feed_error()
            framing.body = framing.arriving = None
        elif isinstance(framing.body, DroppedBody):
            self._close()  # its answer has left, and a second one would be another request's
        else:
            self._drop_arriving()
            self._waiting.append(self._handler.refusal(None, fault))

    def _go_on(self, *, is_prompt: bool = False) -> None:
        """Turn to the requests that wait, then to the one that is arriving."""
        while self._waiting and self._is_free():
            waiting = self._waiting.popleft()
            if isinstance(waiting, Response):
                self._send(waiting)
            else:
                waiting.is_prompt, is_prompt = is_prompt, False
                self._begin(waiting)
        arriving, body = self._framing.arriving, self._framing.body
        if arriving is None:
            return
        if isinstance(body, KeptBody):
            body.count()
        elif body is None and self._is_free():
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
            self.pass_on(request)
        elif isinstance(begun, Response):
            self._send(begun)
            self._back_pressure.pace(begun)
        else:
            self._in_flight = begun

    def _admit(self, request: Request) -> None:
        """Keep the body that is arriving, or pass it on."""
        try:
            keep = self._handler.keep(request)
        except Exception as error:  # noqa: BLE001  a client gets an answer, whatever went wrong
            self.refuse(request, error)
            return
        if keep is None:
            self.pass_on(request)
            return
        body = KeptBody(request, keep, self._handler, self._framing, self)
        body.count()
        if self._framing.body is body and request.waits_for_continue():
            self._transport.write(_CONTINUE)

    def refuse(self, request: Request, error: Exception) -> None:
        """Answer a request whose body need not arrive any more."""
        if isinstance(self._framing.body, KeptBody):
            self._framing.body.drop()
        else:
            self._handler.drop(request)
        self._answering = request
        self._send(self._handler.refusal(request, error))
        self._back_pressure.regulate()

    def _drop_waiting(self) -> None:
        """Turn to no request any more: one that was kept and had to wait all the same counts."""
        for each in self._waiting:
            if isinstance(each, Request):
                self._handler.drop(each)
        self._waiting.clear()
        self._drop_arriving()

    def _drop_arriving(self) -> None:
        """Expect no more of a body: the connection ends, or what comes can't be told apart."""
        self._framing.arriving = None
        if isinstance(self._framing.body, KeptBody):
            self._framing.body.drop()

    # --------------------------------------------------------------------------------- its answers

    def _respond(self, response: Response | None) -> None:
        """Send the answer that was waited for, or pass the request on; called by the handler."""
        self._in_flight = None
        if self._transport.is_closing():
            return
        if response is None:
            assert self._answering is not None
            self._context.run(self.pass_on, self._answering)
        else:
            self._send(response)
            if self._waiting or self._framing.arriving is not None:
                self._context.run(self._go_on)  # the answer comes in the context of its batch
        if not self._back_pressure.reads or self._in_flight is not None:
            self._back_pressure.regulate()

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
        framing, idle = self._framing, self._idle
        idle.until = self._loop.time() + limits.IDLE
        if answered is not None and answered is framing.arriving:
            framing.body = DroppedBody(partial(idle.expect_end_within, limits.IDLE))
            answered.pieces = []
            idle.expect_end_within(limits.LINGERING)
        if framing.awaits_tunnel and not self._waiting:
            fault = framing.decline_tunnel()
            if fault is not None:
                self._end_framing(fault)
        if self._is_last or not keeps_alive:
            self._close()

    def _close(self) -> None:
        """End once what was written has left.

        A client that still sends would lose its answer if the rest was not read for a while.
        """
        tunnel, self._tunnel = self._tunnel, None
        lingers = self._lingers or isinstance(self._framing.body, DroppedBody)
        lingers |= bool(self._waiting) or (tunnel is not None and not tunnel.at_eof())
        self._framing.ends = True
        self._drop_waiting()
        if not lingers:
            self._transport.close()
            return
        if self._transport.can_write_eof():
            with suppress(OSError):  # the client has gone, of which the loop tells later
                self._transport.write_eof()
        self._idle.expect_end_within(limits.LINGERING)

    # ------------------------------------------------------------------------- requests passed on

    def pass_on(self, request: Request) -> None:
        """Let aiohttp have a request."""
        self._answering = request
        protocol = self._server.make_aiohttp_protocol()
        passed = PassedRequest(self, self._transport, request, protocol)
        self._in_flight = passed
        self._framing.body = None if request.is_whole else passed

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
        self._back_pressure.holds_body = False
        self._after_answer(keeps_alive=keeps_alive)
        self._go_on()
        self._back_pressure.regulate()

    def pause_body(self) -> None:
        """Read no more for now of what is passed on."""
        self._back_pressure.holds_body = True
        self._back_pressure.regulate()

    def resume_body(self) -> None:
        """Read on."""
        self._back_pressure.holds_body = False
        self._back_pressure.regulate()

    def open_tunnel(self, reader: asyncio.StreamReader) -> None:
        """Give all bytes from now on to a reader."""
        framing = self._framing
        self._tunnel, framing.ends, framing.awaits_tunnel = reader, True, False
        behind, framing.behind = framing.behind, b""
        if behind:
            reader.feed_data(behind)
        self._back_pressure.regulate()

    # -------------------------------------------------------------------------------------- its end

    @property
    def is_busy(self) -> bool:
        """Whether a request has no answer yet, or its body a time of its own to arrive."""
        return self._in_flight is not None or isinstance(self._framing.body, KeptBody)

    @property
    def is_abandoned(self) -> bool:
        """Whether the client has left while nothing was read, of which no loop tells."""
        return not self._back_pressure.reads and self._tunnel is None and self.has_left()

    @property
    def takes_requests(self) -> bool:
        """Whether more requests may come."""
        return not self._framing.ends

    def has_left(self) -> bool:
        """Whether the client has hung up, be it behind bytes that have not been read."""
        return has_left(self._transport)

    def close(self) -> None:
        """End with the answer that is under way, if any, once it has left."""
        self._framing.ends = self._is_last = True
        if self._in_flight is None:
            self._transport.close()

    def abort(self) -> None:
        """End now."""
        self._transport.abort()
