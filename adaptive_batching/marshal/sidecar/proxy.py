"""Requests that no batch is for: passed on and answered byte for byte, as they come."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from time import monotonic

import aiohttp
from aiohttp import hdrs, web
from multidict import CIMultiDict

from adaptive_batching.errors import Overloaded, UpstreamBroken, UpstreamLost, WorkerTimeout
from adaptive_batching.marshal.http.body import ask_for_body
from adaptive_batching.marshal.http.error_responses import Rejected
from adaptive_batching.marshal.http.header_text import check_text
from adaptive_batching.marshal.http.hop_by_hop import passed_on
from adaptive_batching.marshal.http.read_size import read_freely
from adaptive_batching.marshal.sidecar.proxy_response import PassedAnswer
from adaptive_batching.marshal.sidecar.route import Route
from adaptive_batching.marshal.sidecar.upstream.addresses import Address
from adaptive_batching.marshal.sidecar.upstream.client import Client, Exchange
from adaptive_batching.marshal.sidecar.websocket import WEBSOCKET, tunnel, wants_tunnel
from adaptive_batching.units import format_duration
from adaptive_batching.wire.pieces import Pieces

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
        read: Pieces = (),
        *,
        closes: Callable[[], bool],
    ) -> web.StreamResponse:
        """Answer one request; it ends where nothing comes from the server or is taken for too long.

        Args:
            request: As it came.
            target: Its path and query.
            read: What has been read of its body.
            closes: Whether its connection ends with its answer; asked when that begins.

        Raises:
            UpstreamLost: The server can't be reached, or hung up before it answered.
            UpstreamBroken: It answered with what is no HTTP, or with another protocol or a coding
                without being asked.
            Overloaded: As many requests as may be are passed on to the server already.
            WorkerTimeout: The server did not answer in time.
            Rejected: The body was too slow, or a header is no text.
        """
        repeatable, answers = self._can_be_repeated(request, read), False
        try:
            async with asyncio.timeout(None) as clock:
                patience = _Patience(clock, self.route.passed_timeout)
                try:
                    exchange = await self._sent(request, target, read, patience)
                except UpstreamLost:
                    if not repeatable:
                        raise
                    exchange = await self._sent(request, target, read, patience)
                async with exchange as response:
                    answers = True
                    self.responses[response.status] += 1
                    if response.status == 101:
                        if not wants_tunnel(request):
                            raise UpstreamBroken("a server switched protocols without being asked")
                        patience.end()
                        return await tunnel(request, response)
                    return await _sent_back(response, request, patience, closes=closes())
        except TimeoutError as error:
            waited = f"nothing was sent for {format_duration(self.route.passed_timeout)}"
            if answers:
                raise ConnectionResetError(f"the server's answer broke off: {waited}") from error
            raise WorkerTimeout(f"no answer: {waited}") from error

    async def _sent(
        self, request: web.BaseRequest, target: str, read: Pieces, patience: "_Patience"
    ) -> Exchange:
        server, client = self._choose()
        if client.in_use(server, "passed") >= self.route.max_passed:
            raise Overloaded(f"{self.route.max_passed} requests are passed on to {server.name}")
        headers = CIMultiDict(self.route.terms.headers.for_passed(request.headers.items()))
        check_text(headers.values())
        if self._about is not None:
            headers.update(self._about())
        if wants_tunnel(request):
            headers[hdrs.CONNECTION], headers[hdrs.UPGRADE] = "Upgrade", WEBSOCKET
        body = self._body(request, read, patience) if read or request.can_read_body else None
        try:
            return await client.ask(server, request.method, target, headers, body, kind="passed")
        except aiohttp.ClientError as error:
            if isinstance(error.__cause__, Rejected):
                raise error.__cause__ from None  # not the server's fault
            said = f"{type(error).__name__}: {error}"
            if isinstance(error, aiohttp.ClientResponseError):  # of which aiohttp could make none
                raise UpstreamBroken(f"{server.name}: {said}") from error
            raise UpstreamLost(f"{server.name} did not answer: {said}") from error

    def _can_be_repeated(self, request: web.BaseRequest, read: Pieces) -> bool:
        """Whether nothing of it will be lost, and a second time does no harm."""
        if read:
            return self.route.idempotent and request.content.at_eof()
        return request.method in _SAFE and not (request.can_read_body or wants_tunnel(request))

    async def _body(
        self, request: web.BaseRequest, read: Pieces, patience: "_Patience"
    ) -> AsyncIterator[bytes | memoryview]:
        for piece in read:
            yield piece
        if not read:
            ask_for_body(request)
        left = self.route.terms.body_timeout
        with read_freely(request.transport):
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


async def _sent_back(
    response: aiohttp.ClientResponse,
    request: web.BaseRequest,
    patience: _Patience,
    *,
    closes: bool,
) -> web.StreamResponse:
    """Send the answer on while it comes; if it breaks off, so does ours."""
    headers = passed_on(response.headers)
    answer = PassedAnswer(response.status, response.reason or "", headers)
    if closes:
        answer.force_close()
    await answer.prepare(request)
    try:
        async for chunk in response.content.iter_any():
            await answer.write(chunk)
            patience.begin_anew()
    except aiohttp.ClientError as error:
        raise ConnectionResetError(f"the server's answer broke off: {error}") from error
    await answer.write_eof()
    return answer
