"""Requests that no batch is for: passed on and answered byte for byte, as they come."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from time import monotonic
from typing import Any

import aiohttp
from aiohttp import HttpVersion11, hdrs, web
from multidict import CIMultiDict

from adaptive_batching.errors import Overloaded, UpstreamBroken, UpstreamLost, WorkerTimeout
from adaptive_batching.marshal.http.error_responses import Rejected
from adaptive_batching.marshal.http.request import WEBSOCKET
from adaptive_batching.marshal.http.server.passed import PassedRequest
from adaptive_batching.marshal.sidecar.proxy_headers import check_text
from adaptive_batching.marshal.sidecar.proxy_response import send_back
from adaptive_batching.marshal.sidecar.route import Route
from adaptive_batching.marshal.sidecar.upstream.addresses import Address
from adaptive_batching.marshal.sidecar.upstream.client import Client, Exchange
from adaptive_batching.marshal.sidecar.websocket import tunnel
from adaptive_batching.units import format_duration

_LEAST_RATE = 500  # bytes a second of a body, as Apache's mod_reqtimeout asks for
_SAFE = frozenset({hdrs.METH_GET, hdrs.METH_HEAD, hdrs.METH_OPTIONS})


class PassThrough:
    """Sends requests to a server and its answers back, in both directions while they come.

    Args:
        choose: Says which server the next request goes to, and with what.
        route: Its limits; may be changed.
        about: Headers that take the place of the client's: those of its trace.

    Attributes:
        responses: The server's answers by status.
    """

    def __init__(
        self,
        choose: Callable[[], tuple[Address, Client]],
        route: Route,
        about: Callable[[], Mapping[str, str]] | None = None,
    ) -> None:
        self.responses: Counter[int] = Counter()
        self._choose = choose
        self.route = route
        self._about = about

    async def __call__(
        self,
        request: web.BaseRequest,
        target: str,
        *,
        is_batchable: bool = False,
    ) -> web.StreamResponse:
        """Answer one request; it ends where nothing comes from the server or is taken for too long.

        Args:
            request: As it came.
            target: Its path and query.
            is_batchable: Whether its path is one of those whose requests share batches.

        Raises:
            UpstreamLost: The server can't be reached, or hung up before it answered.
            UpstreamBroken: It answered with what is no HTTP, or with another protocol or a coding
                without being asked.
            Overloaded: As many requests as may be are passed on to the server already.
            WorkerTimeout: The server did not answer in time.
            Rejected: The body was too slow, or a header is no text.
        """
        passed = request.transport
        assert isinstance(passed, PassedRequest)
        answers = False
        try:
            async with asyncio.timeout(None) as clock:
                patience = _Patience(clock, self.route.passed_timeout)
                body, is_repeatable = self._body_of(request, passed, patience, is_batchable)
                try:
                    exchange = await self._sent(request, target, passed, body)
                except UpstreamLost:
                    if not is_repeatable:
                        raise
                    exchange = await self._sent(request, target, passed, body)
                async with exchange as response:
                    answers = True
                    self.responses[response.status] += 1
                    if response.status == 101:
                        if not passed.asks_for_tunnel:
                            raise UpstreamBroken("a server switched protocols without being asked")
                        patience.end()
                        return await tunnel(request, passed, response, self.route.passed_timeout)
                    moved = patience.begin_anew
                    return await send_back(response, request, moved, closes=passed.closes)
        except TimeoutError as error:
            waited = f"nothing was sent for {format_duration(self.route.passed_timeout)}"
            if answers:
                raise ConnectionResetError(f"the server's answer broke off: {waited}") from error
            raise WorkerTimeout(f"no answer: {waited}") from error

    def _body_of(
        self,
        request: web.BaseRequest,
        passed: PassedRequest,
        patience: "_Patience",
        is_batchable: bool,  # noqa: FBT001  see `__call__`
    ) -> tuple[Callable[[], Any], bool]:
        """What makes the body, each time, and whether a request may be sent a second time."""
        has_body = request.can_read_body
        if not request.content.is_eof():
            return partial(self._body, request, patience), False
        whole = request.content.read_nowait()
        body = partial(_whole, whole, has_length=hdrs.CONTENT_LENGTH in request.headers)
        if is_batchable:
            return body, self.route.idempotent
        return body, request.method in _SAFE and not (has_body or passed.asks_for_tunnel)

    async def _sent(
        self, request: web.BaseRequest, target: str, passed: PassedRequest, body: Callable[[], Any]
    ) -> Exchange:
        server, client = self._choose()
        most = self.route.max_passed
        if client.in_use(server, "passed") >= most:
            raise Overloaded(f"max_passed={most} requests are passed on to {server.name}")
        headers = CIMultiDict(self.route.terms.headers.for_passed(request.headers.items()))
        check_text("".join(headers.values()))
        if self._about is not None:
            headers.update(self._about())
        if passed.asks_for_tunnel:
            headers[hdrs.CONNECTION], headers[hdrs.UPGRADE] = "Upgrade", WEBSOCKET
        try:
            return await client.ask(server, request.method, target, headers, body(), kind="passed")
        except aiohttp.ClientError as error:
            if isinstance(error.__cause__, Rejected):
                raise error.__cause__ from None  # not the server's fault
            said = f"{type(error).__name__}: {error}"
            if isinstance(error, aiohttp.ClientResponseError):  # of which aiohttp could make none
                raise UpstreamBroken(f"{server.name}: {said}") from error
            raise UpstreamLost(f"{server.name} did not answer: {said}") from error

    async def _body(self, request: web.BaseRequest, patience: "_Patience") -> AsyncIterator[bytes]:
        ask_for_body(request)
        left = self.route.terms.body_timeout
        while True:
            begin = monotonic()
            chunk = await self._next(request, left)
            left += len(chunk) / _LEAST_RATE - (monotonic() - begin)
            patience.begin_anew()
            if not chunk:
                break
            yield chunk

    async def _next(self, request: web.BaseRequest, left: float) -> bytes:
        try:
            async with asyncio.timeout(min(left, self.route.terms.body_timeout)):
                return await request.content.readany()
        except TimeoutError:
            raise Rejected(408, "body_timeout", closes=True) from None
        except web.RequestPayloadError:
            raise Rejected(400, "malformed", closes=True) from None


class _Patience:
    """Ends an exchange when nothing has moved for so many seconds.

    Args:
        clock: Surrounds the exchange.
        seconds: How long to wait for the next piece.
    """

    def __init__(self, clock: asyncio.Timeout, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self.begin_anew()

    def begin_anew(self) -> None:
        """Wait as long as at the beginning, for something has moved."""
        if not self._clock.expired():
            self._clock.reschedule(asyncio.get_running_loop().time() + self._seconds)

    def end(self) -> None:
        """Wait without a limit from now on."""
        self._clock.reschedule(None)


def _whole(body: bytes, *, has_length: bool) -> bytes | AsyncIterator[bytes] | None:
    """A body that has arrived; one in chunks stays one."""
    if has_length or not body:
        return body or None
    return _in_chunks(body)


async def _in_chunks(body: bytes) -> AsyncIterator[bytes]:
    yield body


def ask_for_body(request: web.BaseRequest) -> None:
    """Let a client that waits for that send its body; HTTP/1.0 has no word for it (RFC 9110, 15.2).

    Args:
        request: The one that has a body which has not come yet.
    """
    waits = request.headers.get(hdrs.EXPECT, "").lower() == "100-continue"
    if waits and request.version >= HttpVersion11 and request.transport:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
