"""Requests that share batches: whole, or in pieces that are joined again."""

import asyncio
from collections.abc import Coroutine, Hashable, Sequence
from math import inf
from time import monotonic
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from adaptive_batching.core import BoundedKey, Priority
from adaptive_batching.dispatcher import Dispatcher
from adaptive_batching.dispatcher.calls import Call, CallInSteps, OnEnd
from adaptive_batching.errors import (
    DeadlineExceeded,
    JobTooLarge,
    Overloaded,
    UpstreamBroken,
    UpstreamMismatch,
)
from adaptive_batching.marshal.http.headers import Headers
from adaptive_batching.marshal.http.request import Request
from adaptive_batching.marshal.sidecar.proxy_headers import check_text
from adaptive_batching.marshal.sidecar.route import Route
from adaptive_batching.marshal.sidecar.tenancy import Claims
from adaptive_batching.marshal.sidecar.upstream.messages import Forwarded, Reply
from adaptive_batching.marshal.sidecar.upstream.pool import Upstreams
from adaptive_batching.wire.exchange import Message, Unsplittable
from adaptive_batching.wire.kserve_agent import with_batch_fields

_Told: TypeAlias = tuple[Forwarded, float, Hashable, int, Hashable, Priority, float | Exception]
_NOBODY = (None, Priority.NORMAL)
_TRIES = 3  # of a request in pieces: two servers may have to show that it is to go whole


class Brought(msgspec.Struct, frozen=True):
    """What a request brings, as its format has taken it.

    Attributes:
        share: It.
        costs: Of its items; none where all cost the same.
    """

    share: Any
    costs: Sequence[float] = ()


class NotBatchable(Exception):
    """A request is to be passed on after all."""


RequestCall = Call[Forwarded, Reply] | CallInSteps[Reply]
"""In steps if a request is in pieces, has an answer that is added to, or has to wait for a model's
configuration."""


class BatchSharing:
    """Lets the shares of one route's requests join batches.

    Args:
        route: The route that they are for.
        dispatcher: Forms the batches.
        upstreams: Where they go.
        claims: Reads the tenant of a request; None if tenants are not told apart.
    """

    def __init__(
        self,
        route: Route,
        dispatcher: Dispatcher[Forwarded, Reply],
        upstreams: Upstreams,
        claims: Claims | None = None,
    ) -> None:
        self._form, self._batch_fields = route.form, route.batch_fields
        self._idempotent = route.idempotent
        self._dispatcher = dispatcher
        self._upstreams = upstreams
        self._claims = claims
        self.retune(route)

    def submit(
        self, brought: Brought, request: Request, target: str, deadline: float, on_end: OnEnd
    ) -> RequestCall:
        """Let what a request brings join a batch, or several in pieces.

        Args:
            brought: What it brings.
            request: As it came.
            target: Its path and query.
            deadline: By when its batch has to have ended (monotonic seconds).
            on_end: Told of the reply, in a later turn of the loop.

        Returns:
            What ends with the reply.

        Raises:
            Refused: The dispatcher does not take it.
            JobTooLarge: One of its items costs more than a batch may.
            DeadlineExceeded: Its client has waited long enough already.
            Rejected: A header for the server is no text.
        """
        known = self._upstreams.models.most(target)
        if known is None:
            replying = self._learned(brought, request, target, deadline)
        elif self._batch_fields:
            replying = self._with_batch_fields(brought, request, target, deadline)
        else:
            call = self._whole(brought, request, target, deadline)
            if call is not None:
                return self._dispatcher.post(on_end, *call)
            replying = self._in_pieces(brought, request, target, deadline)
        return CallInSteps(replying, on_end)

    def retune(self, route: Route) -> None:
        """Ask other things of the clients from now on."""
        self._terms, self._max_queue = route.terms, route.max_queue
        self._costs = route.limits.costs

    async def _learned(
        self, brought: Brought, request: Request, target: str, deadline: float
    ) -> Reply:
        """Wait until it is known whether requests for the model may share batches.

        Raises:
            NotBatchable: They may not.
            Overloaded: The server did not say it in time.
        """
        told = self._item(brought.share, request, target, deadline).headers
        await self._upstreams.models.learn(target, told, deadline)
        if self._upstreams.models.most(target) == 0:
            raise NotBatchable
        if monotonic() >= deadline:
            raise Overloaded("its time was over when its turn came")
        if self._batch_fields:
            return await self._with_batch_fields(brought, request, target, deadline)
        return await self._one_or_pieces(brought, request, target, deadline)

    async def _with_batch_fields(
        self, brought: Brought, request: Request, target: str, deadline: float
    ) -> Reply:
        reply = await self._one_or_pieces(brought, request, target, deadline)
        about = reply.message
        body = with_batch_fields(about.body, str(reply.batch_id))
        return replace(reply, message=Message(body, about.headers, about.status))

    def _one_or_pieces(
        self, brought: Brought, request: Request, target: str, deadline: float
    ) -> Coroutine[Any, Any, Reply]:
        call = self._whole(brought, request, target, deadline)
        if call is None:
            return self._in_pieces(brought, request, target, deadline)
        return self._dispatcher.submit(*call)

    def _whole(
        self, brought: Brought, request: Request, target: str, deadline: float
    ) -> _Told | None:
        """What the dispatcher is told of a request of one batch; None for one that has to be cut.

        A request that is not taken is told with the error, and counted by that.
        """
        known = self._upstreams.models.most(target)
        try:
            if brought.share.size > self._most(brought, known):
                return None
        except JobTooLarge as error:
            return self._call(brought, request, target, deadline, known, error)
        return self._call(brought, request, target, deadline, known)

    async def _in_pieces(
        self, brought: Brought, request: Request, target: str, deadline: float, tries: int = _TRIES
    ) -> Reply:
        share, known = brought.share, self._upstreams.models.most(target)
        if share.size > self._max_queue:  # QueueFull would have its client try again for ever
            most = self._max_queue
            error = JobTooLarge(f"expected at most max_queue={most} items, got {share.size}")
            told = self._call(brought, request, target, deadline, known, error)
            return await self._dispatcher.submit(*told)
        if self._is_apart(share, request, target, known):
            call = self._call(brought, request, target, deadline, known)
            return await self._dispatcher.submit(*call)
        pieces = self._cut(brought, self._most(brought, known))
        try:
            replies = await _all([self._piece(each, request, target, deadline) for each in pieces])
        except UpstreamMismatch:
            if not (self._idempotent and tries > 1):
                raise
            return await self._in_pieces(brought, request, target, deadline, tries - 1)
        try:
            whole = self._form.join(share, [reply.message for reply in replies])
        except Unsplittable as error:
            raise UpstreamBroken(f"a request in {len(pieces)} pieces: {error}") from error
        largest = max(replies, key=lambda reply: reply.batch_size)
        return replace(largest, message=whole)

    def _cut(self, brought: Brought, limit: int) -> list[Brought]:
        pieces = self._form.cut(brought.share, limit)
        if self._costs is None:
            return list(map(Brought, pieces))
        starts = range(0, len(brought.costs), limit)
        costs = [brought.costs[start : start + limit] for start in starts]
        return list(map(Brought, pieces, costs))

    def _is_apart(self, share: Any, request: Request, target: str, known: float | None) -> bool:
        """Whether answers to requests like it have to be left whole, and so has it."""
        item = self._item(share, request, target, inf)
        return not (known and self._upstreams.mergeable(item))

    def _most(self, brought: Brought, known: float | None) -> int:
        """Items of a request that a batch may have, with what is known of the model's own bound.

        Raises:
            JobTooLarge: One of them costs more than a batch may.
        """
        most = int(min(known or inf, self._terms.max_batch_size))
        return most if self._costs is None else min(most, self._costs.most_items(brought.costs))

    async def _piece(
        self, brought: Brought, request: Request, target: str, deadline: float
    ) -> Reply:
        # Since it was cut, a batch may have become smaller: see `retune`.
        return await self._one_or_pieces(brought, request, target, deadline)

    def _call(
        self,
        brought: Brought,
        request: Request,
        target: str,
        deadline: float,
        known: float | None,
        refusal: JobTooLarge | None = None,
    ) -> _Told:
        """What the dispatcher is told of a request for a model of which so much is known."""
        now = monotonic()
        waits = deadline - now
        if waits <= 0:
            raise DeadlineExceeded("its time was over when its body had arrived")
        share = brought.share
        costs = self._costs
        cost = 0.0 if costs is None else costs.of_items(brought.costs)
        filler = -1 if costs is None else costs.filler(brought.costs)
        item = self._item(share, request, target, now + waits, filler)
        key: Hashable = item.key
        size = share.size
        if known and self._upstreams.mergeable(item):
            if known < self._terms.max_batch_size:
                key = BoundedKey(key, int(known))
        else:
            key = object()
            # Larger than a batch it can't be cut; to the queue it is a full one.
            size = min(size, self._terms.max_batch_size)
        tenant, priority = self._claims.of(request.headers) if self._claims is not None else _NOBODY
        if refusal is not None:
            refusal.cost = cost
        elif costs is not None:
            cost = costs.at_most(cost, size)
        return item, waits, key, size, tenant, priority, refusal or cost

    def _item(
        self, share: Any, request: Request, target: str, due: float, filler: int = -1
    ) -> Forwarded:
        method, target = self._form.destination(request.method, target)
        rules = self._terms.headers
        head: Headers | None = request.headers
        told, addresses = rules.key(request.headers.each())
        if self._form.holds_heads:
            head = None
            check_text("".join([value for _, value in told]))
        else:
            check_text("".join(request.headers.values()))
        return Forwarded(
            self._form, share, method, target, rules, told, addresses, head, due, filler
        )


async def _all(pieces: Sequence[Coroutine[Any, Any, Reply]]) -> list[Reply]:
    """Wait for all; the first error ends those that are left."""
    tasks = [asyncio.ensure_future(piece) for piece in pieces]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
