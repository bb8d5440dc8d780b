"""The way of one route's requests: into a batch and back, or straight on."""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from time import monotonic

from aiohttp import web

from adaptive_batching.dispatcher import Dispatcher, Observer
from adaptive_batching.dispatcher.calls import OnEnd
from adaptive_batching.errors import NoWorkers, UpstreamAnswered
from adaptive_batching.instrumentation.histograms import BatchHistograms
from adaptive_batching.instrumentation.recent_batches import RecentBatches
from adaptive_batching.instrumentation.size_advice import SizeAdvice
from adaptive_batching.marshal.http.handler import Keep
from adaptive_batching.marshal.http.request import Request, origin_form
from adaptive_batching.marshal.http.response import Response
from adaptive_batching.marshal.http.tracing import Tracer
from adaptive_batching.marshal.sidecar.alone import Alone
from adaptive_batching.marshal.sidecar.batching import (
    BatchSharing,
    Brought,
    NotBatchable,
    RequestCall,
)
from adaptive_batching.marshal.sidecar.proxy import PassThrough
from adaptive_batching.marshal.sidecar.response_splitting import ResponseSplitting
from adaptive_batching.marshal.sidecar.route import Route
from adaptive_batching.marshal.sidecar.tenancy import Claims
from adaptive_batching.marshal.sidecar.upstream.messages import Forwarded, Reply
from adaptive_batching.marshal.sidecar.upstream.pool import Upstreams
from adaptive_batching.wire import exchange
from adaptive_batching.wire.exchange import Message
from adaptive_batching.wire.pieces import Pieces
from adaptive_batching.wire.splice import NotCuttable

_log = logging.getLogger("adaptive_batching")


class RouteRuntime:
    """A route at work: answers its requests; a `Destination`.

    Args:
        route: What it is for.
        observers: Told about every batch and request.
        tracer: Makes spans, if anybody wants them.
        tenant_header: By which tenants are told apart that share the servers; empty if they are
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
        observers: Sequence[Observer] = (),
        tracer: Tracer | None = None,
        tenant_header: str = "",
    ) -> None:
        self._tenant_header = tenant_header
        route = self.route = self._keeping_tenancy_headers(route)
        self.responses: Counter[int] = Counter()
        self._in_flight = 0
        self._told_of_costs = False
        self._emptied = asyncio.Event()
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
            padded_to=route.padded_to,
            has_models=route.form.has_models,
            verify=route.verify,
            about=about,
        )
        self.histograms = BatchHistograms(route.terms.max_batch_size)
        self.latest = RecentBatches()
        self.advice = SizeAdvice(route.name, attrgetter("option"))
        self.alone = Alone(route.name, route.terms.headers)
        observed: Sequence[Observer] = [self.histograms, self.latest, self.advice, self.alone]
        asked = bool(tenant_header or route.priority_header)
        self.dispatcher: Dispatcher[Forwarded, Reply] = Dispatcher(
            self.upstreams,
            route.limits,
            policy=route.policy,
            idempotent=route.idempotent,
            observers=[*observed, *observers, *traced],
            next_batch_first=True,
            fairness=route.fairness if asked else None,
        )
        claims = Claims(tenant_header, route.priority_header) if asked else None
        self._splitting = ResponseSplitting()
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
        """Go on with other settings of the same route; waiting requests stay in the queue.

        What was learned of its servers is kept.
        """
        route = self.route = self._keeping_tenancy_headers(route)
        self._terms = route.terms
        self.dispatcher.retune(route.policy, route.limits)
        self.upstreams.retune(route.timeout, route.max_answer, route.padded_to)
        self._sharing.retune(route)
        self.alone.rules = route.terms.headers
        self._passing.route = route

    async def aclose(self, timeout: float) -> None:  # noqa: ASYNC109  a drain, not a wait
        """Answer what waits, for at most so many seconds, and close all connections."""
        await self.dispatcher.aclose(timeout)

    # -------------------------------------------------------------------------- as a `Destination`

    @property
    def label(self) -> str:
        """Its name in metrics and in the log."""
        return self.route.name

    @property
    def max_latency(self) -> float:
        """Seconds from a request's arrival to its answer; infinite for no limit."""
        return self._terms.max_latency

    @property
    def concluded(self) -> float:
        """When the last batch ended (monotonic seconds)."""
        return self.dispatcher.concluded

    def takes(self, request: Request) -> bool:
        """Whether a request of this head may share a batch.

        Not if its body is in a coding that is not ours to read, or is too large to be kept.
        """
        path = request.target.partition("?")[0]
        too_large = max(request.length or 0, request.size) > self._terms.max_body
        if too_large or "content-encoding" in request.headers:
            return False
        return self._form.wants(request.method, path)

    def check(self, request: Request) -> None:
        """Refuse no request before its body is read."""

    def keep(self, request: Request) -> Keep:
        """How much of a body that is arriving is kept."""
        return Keep(self._terms.max_body, self._terms.body_timeout, passes_on=True)

    def submit(self, request: Request, within: float, on_end: OnEnd) -> RequestCall | None:
        """Let a request join a batch.

        Returns:
            None if its body can't share one.

        Raises:
            NoWorkers: The servers' addresses are not known yet.
            Refused: The dispatcher does not take it.
            DeadlineExceeded: Its client has waited long enough already.
            Rejected: A header for the server is no text.
        """
        if not self.dispatcher.ready:
            raise NoWorkers("the addresses of the model servers are still looked up")
        target = origin_form(request.method, request.target)
        if target is None or self.upstreams.models.most(target) == 0:
            return None
        brought = self._take(request, target)
        if brought is None:
            return None
        call = self._sharing.submit(brought, request, target, monotonic() + within, on_end)
        self._in_flight += 1
        return call

    def withdraw(self, call: RequestCall) -> None:
        """No answer to a call is wanted any more."""
        self._leave()
        self.dispatcher.withdraw(call)

    def response(
        self, request: Request, outcome: Reply | Exception, now: float
    ) -> Response | Exception | None:
        """The answer to a request whose call has ended; see `Destination`."""
        self._leave()
        if isinstance(outcome, NotBatchable):
            return None
        reply = outcome.reply if isinstance(outcome, UpstreamAnswered) else outcome
        if isinstance(reply, Exception):
            return reply
        return self._splitting.response_to_one(reply, request.id, now - request.came)

    def refuse_unseen(self, within: float) -> float | None:
        """Refuse a request if that is certain, whatever it brings; see `Dispatcher`."""
        return self.dispatcher.refuse_unseen(within)

    # ------------------------------------------------------------------------------------- the rest

    async def pass_on(self, request: web.BaseRequest, target: str) -> web.StreamResponse:
        """Let a server answer a request, byte for byte."""
        self._in_flight += 1
        try:
            wanted = self._form.wants(request.method, target.partition("?")[0])
            with self.upstreams.models.loading(request.method, target):
                return await self._passing(request, target, is_batchable=wanted)
        finally:
            self._leave()

    def _keeping_tenancy_headers(self, route: Route) -> Route:
        """A route whose rules keep the headers of the tenant and of the priority."""
        headers = route.terms.headers.with_tenancy_headers(
            self._tenant_header, route.priority_header
        )
        return replace(route, terms=replace(route.terms, headers=headers))

    def _leave(self) -> None:
        self._in_flight -= 1
        if not self._in_flight:
            self._emptied.set()

    async def retire(self) -> None:
        """Answer the requests that are here, let batches leave at once, then close."""
        self.dispatcher.flush()
        while self._in_flight:
            self._emptied.clear()
            await self._emptied.wait()
        await self.aclose(0.0)

    def _take(self, request: Request, target: str) -> Brought | None:
        """What a request brings; None if it can't share a batch."""
        path, _, query = target.partition("?")
        tail: Pieces = ()
        if len(request.pieces) > 1 and self._form.reads_pieces(request.headers):
            body, *rest = map(bytes, request.pieces)
            tail = tuple(map(memoryview, rest))
        else:
            body = request.body
        message = Message(body, request.headers, tail=tail)
        share = self._form.take(exchange.Request(request.method, path, message, query))
        if share is None or self.route.item_cost is None:
            return None if share is None else Brought(share)
        try:
            return Brought(share, self._form.costs(share, self.route.item_cost))
        except NotCuttable as error:
            if not self._told_of_costs:
                self._told_of_costs = True
                _log.warning(
                    "%s: requests without their cost (--cost) are passed on one by one (said once):"
                    " %s",
                    *(self.route.name, error),
                )
            return None
