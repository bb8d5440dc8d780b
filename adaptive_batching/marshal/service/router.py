"""What answers every request: finds its endpoint, lets its item join a batch, reports errors."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from time import monotonic
from typing import Any

from aiohttp import web
from aiohttp.http import RawRequestMessage

from adaptive_batching.core import QueueingDelay
from adaptive_batching.dispatcher import Dispatcher, request_name
from adaptive_batching.errors import DeadlineExceeded, Overloaded
from adaptive_batching.marshal.admin.admin import Page, find_page
from adaptive_batching.marshal.http.answer import Answer, as_sent, filled_head, stays_open
from adaptive_batching.marshal.http.body import arrived_body, arriving_body, too_large
from adaptive_batching.marshal.http.connection import notice
from adaptive_batching.marshal.http.deadline import patience
from adaptive_batching.marshal.http.error_log import ErrorLog
from adaptive_batching.marshal.http.error_responses import rejection
from adaptive_batching.marshal.http.fast_path import Respond, Visit, received
from adaptive_batching.marshal.http.load_shedding import Unread
from adaptive_batching.marshal.http.protocol import check_protocol
from adaptive_batching.marshal.http.request_ids import request_id
from adaptive_batching.marshal.service.concurrency_limit import Door
from adaptive_batching.marshal.service.endpoint_runtime import Lane
from adaptive_batching.marshal.service.negotiation import Formats
from adaptive_batching.units import format_duration

_Visit = Visit[tuple[Lane, Dispatcher[Any, bytes], Formats], bytes]
_REFUSED = 503


class Marshal:
    """Answers all requests of a service; an aiohttp low-level handler.

    Args:
        lanes: The endpoints by path.
        pages: What can be looked at, by path.
        max_in_flight: Requests at a time, whose bodies have to fit into memory together.
        body_timeout: Seconds that a body may take to arrive.
        own_server: Whether nobody else has anything to do with the answers on their way out.

    Attributes:
        draining: Whether clients are told to go elsewhere; what comes is answered all the same.
        pressed: Whether the last request that was looked at was refused: others may be as well.
        door: Counts the requests that are being answered.
        unrouted: Answers by status to requests that found no endpoint.
    """

    def __init__(
        self,
        lanes: Mapping[str, Lane],
        pages: Mapping[str, Page],
        *,
        max_in_flight: int,
        body_timeout: float,
        own_server: bool = True,
    ) -> None:
        self.draining = self.pressed = False
        self._own_server = own_server
        self.door = Door(max_in_flight)
        self.unrouted: Counter[int] = Counter()
        self._lanes = lanes
        self._pages = pages
        self._body_timeout = body_timeout
        self._emptied: asyncio.Future[None] | None = None
        self._errors = ErrorLog()
        self._passage = QueueingDelay()
        self._unread = Unread(self._passage, self._errors)

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request, whatever happens."""
        lane = self._lanes.get(request.raw_path) or self._lanes.get(request.path)
        return await self.answer(request, lane)

    async def answer(self, request: web.BaseRequest, lane: Lane | None) -> web.StreamResponse:
        """Answer one request, whatever happens, whose way is known; None if it is for a page."""
        self.door.enter()
        response: web.StreamResponse
        name = request_id(request)
        request_name.set(name)
        try:
            check_protocol(request)
            if lane is None:
                response = await find_page(self._pages, request)(request)
            else:
                response = await self._answer(request, lane, name)
        except Exception as error:  # noqa: BLE001  a client gets an answer, whatever went wrong
            page = request.path if request.path in self._pages else "other"
            self._errors.enter(error, name, page if lane is None else lane.path)
            response = rejection(error, name)
        finally:
            self._leave()
        self._count(response.status, lane)
        if self.draining:
            response.force_close()
        return response

    def turn_away(self, message: RawRequestMessage, unread: float, now: float) -> bytes | None:
        """All of the answer to a request that was read too late to be answered in time.

        Args:
            message: Its line and headers.
            unread: Seconds for which it lay unread.
            now: The present (monotonic seconds).
        """
        lane = self._lanes.get(message.path)
        if lane is None or message.method != "POST" or self.draining or not lane.line.ready:
            return None
        line = lane.line if isinstance(lane.line, Dispatcher) else None
        late = self._unread.error(message.headers, lane.max_latency, unread, now, line)
        if late is None:
            return None
        lane.responses[late.status] += 1
        return self._unread.answer(late, message.headers, lane.path)

    def begin(
        self, message: RawRequestMessage, body: bytes, came: float, respond: Respond
    ) -> _Visit | bytes | None:
        """Let a request wait for its batch; see `FastPath`."""
        lane = self._lanes.get(message.path)
        if lane is None or self.draining:
            return None
        if len(body) > lane.max_body or "Content-Encoding" in message.headers:
            return None
        name = received(message, came, self._passage)
        try:
            return self._visit(lane, message, body, came, name, respond)
        except Exception as error:  # noqa: BLE001  a client gets an answer, whatever went wrong
            return self._refused(error, lane, name)

    async def emptied(self) -> None:
        """Wait until no request is being answered."""
        if self.door.in_flight:
            if self._emptied is None:
                self._emptied = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._emptied)

    def _visit(
        self,
        lane: Lane,
        message: RawRequestMessage,
        body: bytes,
        came: float,
        name: str,
        respond: Respond,
    ) -> _Visit | None:
        """A request's wait for its batch; None if it needs more than that."""
        call, posting = None, lane.posting
        if posting is None:
            return None
        self.door.enter(len(body))
        try:
            formats = self.door.check(message.method, message.headers, lane)
            within = self._within(lane, message.headers, monotonic() - came)
            call = posting.post(formats.item(body), within)
        finally:
            if call is None:
                self._leave(len(body))
        if call is None:
            return None
        about, withdraw = (lane, posting.dispatcher, formats), posting.dispatcher.withdraw
        return Visit(self._visited, withdraw, call, about, name, came, len(body), respond)

    def _visited(self, visit: _Visit, future: "asyncio.Future[bytes]") -> None:
        """A visit is over."""
        lane, dispatcher, formats = visit.about
        self._leave(visit.held)
        if future.cancelled():
            return
        closes = self.draining
        try:
            body = future.result()
        except Exception as error:  # noqa: BLE001  a client gets an answer, whatever went wrong
            answer = self._refused(error, lane, visit.name, closes=closes)
        else:
            self._passage.answered(monotonic() - dispatcher.concluded)
            answer = formats.sent(body, visit.name, closes=closes)
            self._count(200, lane)
        visit.respond(answer, closes)

    def _refused(self, error: Exception, lane: Lane, name: str, *, closes: bool = False) -> bytes:
        told = self._errors.answer(error, name, lane.path)
        self._count(told.status, lane)
        return as_sent(*told, closes=closes)

    def _leave(self, held: int = 0) -> None:
        self.door.leave(held)
        if self._emptied is not None and not self.door.in_flight:
            self._emptied.set_result(None)
            self._emptied = None

    def _count(self, status: int, lane: Lane | None) -> None:
        (self.unrouted if lane is None else lane.responses)[status] += 1
        self.pressed = status == _REFUSED

    async def _answer(self, request: web.BaseRequest, lane: Lane, name: str) -> web.StreamResponse:
        formats = self.door.check(request.method, request.headers, lane)
        within = self._within(lane, request.headers, self._waited(request))
        body = arrived_body(request)
        if body is None:
            if (request.content_length or 0) > lane.max_body:
                raise too_large()  # what was announced need not be read
            began = monotonic()
            body = await arriving_body(request, lane.max_body, self._body_timeout)
            within -= monotonic() - began
            if within <= 0:
                raise DeadlineExceeded("its time was over when its body had arrived")
        if len(body) > lane.max_body:
            raise too_large()
        answer = await self.door.answer(lane, formats.item(body), len(body), within)
        if self._own_server and stays_open(request) and not self.draining:
            return Answer(filled_head(formats.head, answer, name), answer)
        headers = {**formats.headers, "X-Request-Id": name}
        return web.Response(body=answer, headers=headers)

    def _within(self, lane: Lane, headers: Mapping[str, str], waited: float) -> float:
        """Seconds that a request which has waited for some has left for its batch."""
        patient = min(patience(headers), lane.max_latency)
        within = patient - waited - self._passage.allowance(patient)
        if within <= 0:
            raise Overloaded(f"an answer within {format_duration(patient)} is out of reach")
        return within

    def _waited(self, request: web.BaseRequest) -> float:
        """Seconds from a request's bytes to now, which is its turn; others' servers don't know."""
        if not self._own_server:
            return 0.0
        return monotonic() - notice(request, self._passage)
