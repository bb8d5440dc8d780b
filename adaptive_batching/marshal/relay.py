"""The way of one route's requests: into a batch and back, or straight on."""

import asyncio
from collections import Counter
from collections.abc import Coroutine, Hashable, Mapping, Sequence
from dataclasses import replace
from time import monotonic
from typing import Any

from aiohttp import web

from adaptive_batching.core import Limits
from adaptive_batching.dispatcher import Dispatcher, Observer
from adaptive_batching.errors import DeadlineExceeded, UpstreamBroken
from adaptive_batching.instrumentation.histograms import BatchHistograms
from adaptive_batching.instrumentation.latest import LatestBatches
from adaptive_batching.marshal.body import arrived_body, arriving_body
from adaptive_batching.marshal.header_view import HeaderView
from adaptive_batching.marshal.held_bytes import HeldBytes
from adaptive_batching.marshal.passing import PassThrough
from adaptive_batching.marshal.patience import patience
from adaptive_batching.marshal.route import Route
from adaptive_batching.wire.exchange import Message, Request, Unsplittable
from adaptive_batching.wire.kserve_agent import with_batch_fields
from adaptive_batching.wire.open_inference import OpenInference
from adaptive_batching.workers.upstream import Upstreams
from adaptive_batching.workers.upstream_messages import Forwarded, Reply


class Relay:
    """Answers the requests of one route.

    Args:
        route: What it is for.
        held: Counts the bytes of all requests that are kept.
        observers: Told about every batch and request.

    Attributes:
        route: What it is for.
        dispatcher: Forms its batches; its `stats()` tell what happened.
        histograms: Of its batches.
        latest: Of its batches, the last.
        responses: Answers by status.
        upstreams: Where its batches go.
    """

    def __init__(self, route: Route, held: HeldBytes, observers: Sequence[Observer] = ()) -> None:
        self.route = route
        self.responses: Counter[int] = Counter()
        self._in_flight = 0
        self._emptied = asyncio.Event()
        self._held = held
        self._form, self._terms = route.form, route.terms
        self.upstreams = Upstreams(
            route.servers,
            concurrency=route.concurrency,
            timeout=route.timeout,
            max_answer=route.max_answer,
            tls=route.tls,
            rehearsed=route.rehearsed,
            statistics=isinstance(route.form, OpenInference),
            verify=route.verify,
        )
        self.histograms = BatchHistograms(route.terms.max_batch_size)
        self.latest = LatestBatches()
        self.dispatcher: Dispatcher[Forwarded, Reply] = Dispatcher(
            self.upstreams,
            Limits(route.terms.max_batch_size, route.terms.max_latency, route.max_queue),
            policy=route.policy,
            idempotent=route.idempotent,
            observers=[self.histograms, self.latest, *observers],
            next_batch_first=True,
        )
        self._passing = PassThrough(self.upstreams.choose, route.terms.body_timeout)

    @property
    def upstream_responses(self) -> dict[str, Mapping[int, int]]:
        """What the servers answered, by status, to batches and to requests that were passed on."""
        return {"batch": self.upstreams.responses, "passed": self._passing.responses}

    async def start(self) -> None:
        """Be ready to pass on and to batch."""
        await self.dispatcher.start()

    async def aclose(self, timeout: float) -> None:  # noqa: ASYNC109  a drain, not a wait
        """Answer what waits, for at most so many seconds, and close all connections."""
        await self.dispatcher.aclose(timeout)

    async def answer(
        self, request: web.BaseRequest, target: str, begin: float
    ) -> Reply | web.StreamResponse:
        """Answer one request.

        Args:
            request: As it came.
            target: Its path and query.
            begin: When it came (monotonic seconds).

        Returns:
            The server's reply to it as a member of a batch, or all that the server said to it.
        """
        self._in_flight += 1
        try:
            return await self._answer(request, target, begin)
        finally:
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

    async def _answer(
        self, request: web.BaseRequest, target: str, begin: float
    ) -> Reply | web.StreamResponse:
        path = target.partition("?")[0]
        if not self._form.wants(request.method, path) or self._must_stream(request):
            return await self._passing(request, target)
        body = arrived_body(request, self._terms.max_body)
        size = self._announced(request) if body is None else len(body)
        self._held.take(size)
        try:
            return await self._taken(body, request, target, begin)
        finally:
            self._held.give_back(size)

    async def _taken(
        self, body: bytes | None, request: web.BaseRequest, target: str, begin: float
    ) -> Reply | web.StreamResponse:
        """Answer a request whose body is or will be kept."""
        if body is None:
            body = await arriving_body(request, self._terms.max_body, self._terms.body_timeout)
        path, _, query = target.partition("?")
        message = Message(body, HeaderView(request.headers))
        share = self._form.take(Request(request.method, path, message, query))
        if share is None:
            return await self._passing(request, target, body)
        reply = await self._batched(share, request, target, begin)
        return _with_batch_fields(reply) if self.route.batch_fields else reply

    def _announced(self, request: web.BaseRequest) -> int:
        """Bytes that a body may come to."""
        length = request.content_length
        return self._terms.max_body if length is None else length

    def _must_stream(self, request: web.BaseRequest) -> bool:
        """Whether its body is in a coding that is not ours to read, or too large to be kept."""
        too_large = (request.content_length or 0) > self._terms.max_body
        return too_large or "Content-Encoding" in request.headers

    async def _batched(
        self, share: Any, request: web.BaseRequest, target: str, begin: float
    ) -> Reply:
        """Let a share, or the pieces that it is cut into, join batches."""
        limit = self._terms.max_batch_size
        if share.size <= limit:
            return await self._submit(share, request, target, begin)
        pieces = self._form.cut(share, limit)
        replies = await _all([self._submit(each, request, target, begin) for each in pieces])
        try:
            whole = self._form.join(share, [reply.message for reply in replies])
        except Unsplittable as error:
            raise UpstreamBroken(f"a request in {len(pieces)} pieces: {error}") from error
        last = replies[-1]
        return Reply(last.status, whole, last.batch_id, last.batch_size, last.seconds)

    async def _submit(
        self, share: Any, request: web.BaseRequest, target: str, begin: float
    ) -> Reply:
        item = Forwarded(self._form, share, request.method, target, self._partition(request))
        waits = min(patience(request.headers), self._terms.max_latency) - (monotonic() - begin)
        if waits <= 0:
            raise DeadlineExceeded("its time was over when its body had arrived")
        key: Hashable = item.key
        if not self.upstreams.mergeable(key):
            key = object()
        return await self.dispatcher.submit(item, key, waits, share.size)

    def _partition(self, request: web.BaseRequest) -> dict[str, str]:
        """What the server is told of a client in a batch: the same for all of its members."""
        headers = request.headers
        return {
            name: ", ".join(headers.getall(name))
            for name in self._terms.partition_by
            if name in headers
        }


def _with_batch_fields(reply: Reply) -> Reply:
    about = reply.message
    body = with_batch_fields(about.body, str(reply.batch_id))
    return replace(reply, message=Message(body, about.headers, about.status))


async def _all(pieces: Sequence[Coroutine[Any, Any, Reply]]) -> list[Reply]:
    """Wait for all; the first error ends those that are left."""
    tasks = [asyncio.ensure_future(piece) for piece in pieces]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
