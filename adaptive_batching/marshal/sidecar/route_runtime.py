"""The way of one route's requests: into a batch and back, or straight on."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any

from aiohttp import web
from aiohttp.http import RawRequestMessage

from adaptive_batching.dispatcher import Dispatcher, Observer
from adaptive_batching.dispatcher.calls import Call
from adaptive_batching.errors import Overloaded
from adaptive_batching.instrumentation.histograms import BatchHistograms
from adaptive_batching.instrumentation.recent_batches import RecentBatches
from adaptive_batching.marshal.http.body import arrived_body, arriving_body, arriving_pieces
from adaptive_batching.marshal.http.deadline import patience
from adaptive_batching.marshal.http.header_text import check_text
from adaptive_batching.marshal.http.header_view import HeaderView
from adaptive_batching.marshal.http.tracing import Tracer
from adaptive_batching.marshal.sidecar.alone import Alone
from adaptive_batching.marshal.sidecar.batching import Asked, BatchSharing
from adaptive_batching.marshal.sidecar.memory_limit import HeldBytes, Holding
from adaptive_batching.marshal.sidecar.proxy import PassThrough
from adaptive_batching.marshal.sidecar.route import Route
from adaptive_batching.marshal.sidecar.tenancy import Claims
from adaptive_batching.marshal.sidecar.upstream.messages import Forwarded, Reply
from adaptive_batching.marshal.sidecar.upstream.pool import Upstreams
from adaptive_batching.wire.exchange import Message, Request
from adaptive_batching.wire.pieces import Pieces

_log = logging.getLogger("adaptive_batching")


class Relay:
    """Answers the requests of one route.

    Args:
        route: What it is for.
        held: Counts the bytes of all requests that are kept.
        observers: Told about every batch and request.
        tracer: Makes spans, if anybody wants them.
        tenant_header: By which tenants are told apart, who share the servers; empty if they are
            not.

    Attributes:
        route: What it is for, as it was told last.
        dispatcher: Forms its batches; its `stats()` tell what happened.
        histograms: Of its batches.
        latest: Of its batches, the last.
        alone: Counts requests that had a batch to themselves.
        responses: Answers by status.
        upstreams: Where its batches go.
    """

    def __init__(
        self,
        route: Route,
        held: HeldBytes,
        observers: Sequence[Observer] = (),
        tracer: Tracer | None = None,
        tenant_header: str = "",
    ) -> None:
        self.route = route
        self.responses: Counter[int] = Counter()
        self._in_flight = 0
        self._emptied = asyncio.Event()
        self._held = held
        self._form, self._terms = route.form, route.terms
        traced = [] if tracer is None else [tracer.observer(route.name)]
        about = None if tracer is None else tracer.headers
        self.upstreams = Upstreams(
            route.servers,
            concurrency=route.concurrency,
            timeout=route.timeout,
            max_answer=route.max_answer,
            tls=route.tls,
            rehearsed=route.rehearsed,
            has_models=route.form.has_models,
            verify=route.verify,
            about=about,
        )
        self.histograms = BatchHistograms(route.terms.max_batch_size)
        self.latest = RecentBatches()
        self.alone = Alone(route.name, route.terms.headers)
        asked = bool(tenant_header or route.priority_header)
        self.dispatcher: Dispatcher[Forwarded, Reply] = Dispatcher(
            self.upstreams,
            route.limits,
            policy=route.policy,
            idempotent=route.idempotent,
            observers=[self.histograms, self.latest, self.alone, *observers, *traced],
            next_batch_first=True,
            fairness=route.fairness if asked else None,
        )
        claims = Claims(tenant_header, route.priority_header) if asked else None
        self._sharing = BatchSharing(route, self.dispatcher, self.upstreams, claims)
        self._passing = PassThrough(self.upstreams.choose, route, about)

    @property
    def upstream_responses(self) -> dict[str, Mapping[int, int]]:
        """What the servers answered, by status, to batches and to requests that were passed on."""
        return {"batch": self.upstreams.responses, "passed": self._passing.responses}

    async def start(self) -> None:
        """Be ready to pass on and to batch."""
        self.warn()
        await self.dispatcher.start()

    def warn(self) -> None:
        """Say what will not go well."""
        if self.route.unproven:
            _log.warning(
                "%s: packed requests are taken from a Unix socket or with a secret, and otherwise"
                " get 403: say secret_file (--secret-file)",
                self.route.name,
            )

    def retune(self, route: Route) -> None:
        """Go on as the relay of a route of the same essence; who waits, waits on.

        What was learned of its servers is kept.
        """
        self.route, self._terms = route, route.terms
        self.dispatcher.retune(route.policy, route.limits)
        self.upstreams.bound(route.timeout, route.max_answer)
        self._sharing.retune(route)
        self.alone.rules = route.terms.headers
        self._passing.route = route

    async def aclose(self, timeout: float) -> None:  # noqa: ASYNC109  a drain, not a wait
        """Answer what waits, for at most so many seconds, and close all connections."""
        await self.dispatcher.aclose(timeout)

    async def answer(
        self,
        request: web.BaseRequest,
        target: str,
        begin: float,
        *,
        closes: Callable[[], bool],
    ) -> Reply | web.StreamResponse:
        """Answer one request.

        Args:
            request: As it came.
            target: Its path and query.
            begin: From when on its time counts (monotonic seconds).
            closes: Whether its connection ends with its answer; asked when one that is passed on
                begins.

        Returns:
            The server's reply to it as a member of a batch, or all that the server said to it.
        """
        holding = Holding(self._held)
        self._in_flight += 1
        try:
            path = target.partition("?")[0]
            if not self._form.wants(request.method, path) or self._must_stream(request):
                with self.upstreams.models.loading(request.method, target):
                    return await self._passing(request, target, closes=closes)
            if not await self._batches(request, target, begin):
                return await self._passing(request, target, closes=closes)
            self._check_turn(begin)
            message = await self._message(request, holding)
            too_large = message.size > self._terms.max_body
            share = None if too_large else self._take(request, target, message)
            if share is None:
                return await self._passing(request, target, message.pieces, closes=closes)
            return await self._sharing.answer(share, request, target, begin)
        finally:
            self.leave(holding.size)

    def shares(self, message: RawRequestMessage) -> bool:
        """Whether a request of this line and these headers may share a batch."""
        wanted = self._form.wants(message.method, message.path.partition("?")[0])
        return wanted and "Content-Encoding" not in message.headers

    def post(
        self, message: RawRequestMessage, body: bytes, begin: float
    ) -> Call[Forwarded, Reply] | None:
        """Let a request that is all there wait for a batch; it is here until `leave` is called.

        Args:
            message: Its line and headers, for which `shares` says yes.
            body: All of it.
            begin: From when on its time counts (monotonic seconds).

        Returns:
            None if it needs more than a place in a batch; then it has not been here.
        """
        if len(body) > self._terms.max_body:
            return None
        self._check_turn(begin)
        if not self.upstreams.models.most(message.path):
            return None
        share = self._take(message, message.path, Message(body, HeaderView(message.headers)))
        if share is None:
            return None
        self._held.take(len(body))
        self._in_flight += 1
        call = None
        try:
            call = self._sharing.post(share, message, message.path, begin)
        finally:
            if call is None:
                self.leave(len(body))
        return call

    def leave(self, held: int) -> None:
        """A request of so many bytes has its answer, or does not want it any more."""
        self._held.give_back(held)
        self._in_flight -= 1
        if not self._in_flight:
            self._emptied.set()

    async def retire(self) -> None:
        """Answer those who are here, let batches leave at once, then close."""
        self.dispatcher.flush()
        while self._in_flight:
            self._emptied.clear()
            await self._emptied.wait()
        await self.aclose(0.0)

    def _check_turn(self, begin: float) -> None:
        if begin + self._terms.max_latency <= monotonic():
            raise Overloaded("its time was over when its turn came")

    async def _batches(self, request: web.BaseRequest, target: str, begin: float) -> bool:
        """Whether requests for a model share batches; it is asked for if that isn't known."""
        models = self.upstreams.models
        if models.most(target) is None:
            due = begin + min(patience(request.headers), self._terms.max_latency)
            told, _ = self._terms.headers.key(request.headers.items())
            check_text([value for _, value in told])
            await models.learn(target, told, due)
        return models.most(target) != 0

    def _take(self, request: Asked, target: str, message: Message) -> Any:
        """What a request brings; None if it can't share a batch."""
        path, _, query = target.partition("?")
        return self._form.take(Request(request.method, path, message, query))

    async def _message(self, request: web.BaseRequest, holding: Holding) -> Message:
        """All of a body, or the beginning of one that is too large to be kept.

        What is announced is counted at once, for it will come; what is not, when it comes.

        Raises:
            QueueFull: Too many bytes would be kept.
            Rejected: It took too long or is broken.
        """
        body = arrived_body(request)
        announced = request.content_length if body is None else len(body)
        if announced is not None:
            holding.take(announced)
        if body is None:
            keep = holding.take if announced is None else None
            bounds = self._terms.max_body, self._terms.body_timeout
            if self._form.reads_pieces(request.headers):
                body, *more = await arriving_pieces(request, *bounds, keep)
                tail: Pieces = tuple(memoryview(piece) for piece in more)
                return Message(body, HeaderView(request.headers), tail=tail)
            body = await arriving_body(request, *bounds, keep)
        return Message(body, HeaderView(request.headers))

    def _must_stream(self, request: web.BaseRequest) -> bool:
        """Whether its body is in a coding that is not ours to read, or too large to be kept."""
        too_large = (request.content_length or 0) > self._terms.max_body
        return too_large or "Content-Encoding" in request.headers
