"""A proxy that lets requests for model servers share batches, and passes on all others."""

import asyncio
from collections import Counter
from collections.abc import Callable
from time import monotonic

from aiohttp import web
from aiohttp.http import RawRequestMessage

from adaptive_batching.core import QueueingDelay
from adaptive_batching.dispatcher import request_name
from adaptive_batching.errors import Overloaded, UpstreamAnswered
from adaptive_batching.marshal.http.answer import as_sent
from adaptive_batching.marshal.http.connection import notice
from adaptive_batching.marshal.http.error_log import ErrorLog
from adaptive_batching.marshal.http.error_responses import Rejected, rejection
from adaptive_batching.marshal.http.fast_path import Respond, Visit, received
from adaptive_batching.marshal.http.load_shedding import Unread
from adaptive_batching.marshal.http.protocol import check_protocol
from adaptive_batching.marshal.http.request_ids import request_id
from adaptive_batching.marshal.http.request_target import origin_form
from adaptive_batching.marshal.sidecar.response_splitting import SharesOfReplies
from adaptive_batching.marshal.sidecar.route_runtime import Relay
from adaptive_batching.marshal.sidecar.tenant_limits import Tenants
from adaptive_batching.marshal.sidecar.upstream.messages import Reply

FindRelay = Callable[[str], Relay | None]
"""The way for a path; None if there is none."""

_Visit = Visit[tuple[Relay, str], Reply]  # with its tenant
_REFUSED = 503


class Sidecar:
    """Answers all requests for some model servers; an aiohttp low-level handler.

    Args:
        find_relay: Knows who answers.
        max_in_flight: Requests at a time; more are refused.
        tenants: Counts those of each tenant.

    Attributes:
        draining: Whether clients are told to go elsewhere; what comes is answered all the same.
        pressed: Whether the last request that was looked at was refused: others may be as well.
        in_flight: Requests that are being answered.
        unrouted: Answers by status to requests that found no route.
    """

    def __init__(self, find_relay: FindRelay, max_in_flight: int, tenants: Tenants) -> None:
        self.draining = self.pressed = False
        self.in_flight = 0
        self.unrouted: Counter[int] = Counter()
        self._find_relay = find_relay
        self._max_in_flight = max_in_flight
        self._tenants = tenants
        self._errors = ErrorLog()
        self._passage = QueueingDelay()
        self._unread = Unread(self._passage, self._errors)
        self._shares = SharesOfReplies()
        self._emptied = asyncio.Event()
        self._emptied.set()

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request, whatever happens."""
        self._enter()
        begin = notice(request, self._passage)
        response: web.StreamResponse
        relay: Relay | None = None
        name = request_id(request)
        request_name.set(name)
        try:
            target = self._target(request)
            relay = self._relay(target)
            tenant = self._tenants.enter(request.headers)
            try:
                allowance = self._passage.allowance(relay.route.terms.max_latency)
                answer = await relay.answer(
                    request, target, begin - allowance, closes=lambda: self.draining
                )
            finally:
                self._tenants.leave(tenant)
            if isinstance(answer, Reply):
                answer = self._shared(answer, request, name, begin)
            response = answer
        except UpstreamAnswered as error:
            response = self._shared(error.reply, request, name, begin)
        except ConnectionError:
            raise  # the answer has begun, and is broken off
        except Exception as error:  # noqa: BLE001  a client gets an answer, whatever went wrong
            self._errors.enter(error, name, "sidecar" if relay is None else relay.route.name)
            response = rejection(error, name)
        finally:
            self._leave()
        self._count(response.status, relay)
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
        relay = self._find_relay(message.path)
        if relay is None or self.draining or not relay.shares(message):
            return None
        line, promise = relay.dispatcher, relay.route.terms.max_latency
        late = self._unread.error(message.headers, promise, unread, now, line)
        if late is None:
            return None
        relay.responses[late.status] += 1
        return self._unread.answer(late, message.headers, relay.route.name)

    def begin(
        self, message: RawRequestMessage, body: bytes, came: float, respond: Respond
    ) -> _Visit | bytes | None:
        """Let a request wait for its batch; see `FastPath`."""
        relay = self._find_relay(message.path)
        if relay is None or self.draining or not relay.shares(message):
            return None
        name = received(message, came, self._passage)
        try:
            return self._visit(relay, message, body, came, name, respond)
        except Exception as error:  # noqa: BLE001  a client gets an answer, whatever went wrong
            return self._refused(error, relay, name)

    async def emptied(self) -> None:
        """Wait until no request is being answered."""
        await self._emptied.wait()

    def _visit(
        self,
        relay: Relay,
        message: RawRequestMessage,
        body: bytes,
        came: float,
        name: str,
        respond: Respond,
    ) -> _Visit | None:
        """A request's wait for its batch; None if it needs more than that."""
        if self.in_flight >= self._max_in_flight:
            raise self._full()
        tenant = self._tenants.enter(message.headers)
        call = None
        try:
            allowance = self._passage.allowance(relay.route.terms.max_latency)
            call = relay.post(message, body, came - allowance)
        finally:
            if call is None:
                self._tenants.leave(tenant)
        if call is None:
            return None
        self._enter()
        withdraw = relay.dispatcher.withdraw
        about, held = (relay, tenant), len(body)
        return Visit(self._visited, withdraw, call, about, name, came, held, respond)

    def _visited(self, visit: _Visit, future: "asyncio.Future[Reply]") -> None:
        """A visit is over."""
        relay, tenant = visit.about
        self._leave()
        self._tenants.leave(tenant)
        relay.leave(visit.held)
        if future.cancelled():
            return
        closes = self.draining
        try:
            reply = _reply_of(future)
            now = monotonic()
            self._passage.answered(now - relay.dispatcher.concluded)
            answer = self._shares.sent(reply, visit.name, now - visit.came, closes=closes)
            self._count(reply.status, relay)
        except Exception as error:  # noqa: BLE001  a client gets an answer, whatever went wrong
            answer = self._refused(error, relay, visit.name, closes=closes)
        visit.respond(answer, closes)

    def _refused(self, error: Exception, relay: Relay, name: str, *, closes: bool = False) -> bytes:
        told = self._errors.answer(error, name, relay.route.name)
        self._count(told.status, relay)
        return as_sent(*told, closes=closes)

    def _full(self) -> Overloaded:
        return Overloaded(f"{self._max_in_flight} requests are in flight already")

    def _enter(self) -> None:
        self.in_flight += 1
        self._emptied.clear()

    def _leave(self) -> None:
        self.in_flight -= 1
        if not self.in_flight:
            self._emptied.set()

    def _count(self, status: int, relay: Relay | None) -> None:
        (self.unrouted if relay is None else relay.responses)[status] += 1
        self.pressed = status == _REFUSED

    def _target(self, request: web.BaseRequest) -> str:
        check_protocol(request)
        if self.in_flight > self._max_in_flight:
            raise self._full()
        return origin_form(request)

    def _relay(self, target: str) -> Relay:
        relay = self._find_relay(target)
        if relay is None:
            raise Rejected(404, "not_found")
        return relay

    def _shared(
        self, reply: Reply, request: web.BaseRequest, name: str, begin: float
    ) -> web.StreamResponse:
        seconds = monotonic() - begin
        return self._shares.share(reply, request, name, seconds, closes=self.draining)


def _reply_of(future: "asyncio.Future[Reply]") -> Reply:
    """What a server said, were it that it can't answer."""
    try:
        return future.result()
    except UpstreamAnswered as error:
        reply: Reply = error.reply
        return reply
