"""The HTTP client for model servers: it does nothing of its own accord.

No cookies from one client to the next, no redirects to somewhere else, no proxy from the
environment, no inflating, no sending twice; and whatever a server does instead of answering has one
meaning each.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import aiohttp
from aiohttp import hdrs
from multidict import CIMultiDict

from adaptive_batching.errors import (
    UpstreamBroken,
    UpstreamLost,
    UpstreamUnreachable,
    WorkerTimeout,
)
from adaptive_batching.marshal.http.response import WITHOUT_BODY
from adaptive_batching.marshal.sidecar.upstream.addresses import Address
from adaptive_batching.marshal.sidecar.upstream.bodies import incoming, outgoing
from adaptive_batching.marshal.sidecar.upstream.connections import Pool
from adaptive_batching.units import format_duration
from adaptive_batching.wire.exchange import Message

_NOT_CONNECTED = (
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.ClientSSLError,
    aiohttp.ServerFingerprintMismatch,
)
_NO_CODINGS = frozenset({"", "chunked", "identity"})
_HUNG_UP = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError)  # if it was connected
_MAX_LENGTH = 2**63 - 1  # bytes: what other programs can count
_FIRST_STATUS = 100
_FAILED = 500  # after which uvicorn hangs up without having said so
_WITH_BODY = frozenset({hdrs.METH_POST, hdrs.METH_PUT, hdrs.METH_PATCH})
_log = logging.getLogger("adaptive_batching.upstream")


class Exchange:
    """A request that was sent, and its answer while it arrives; the connection is given back after.

    Args:
        response: The answer, of which the head is there.
        give_back: Called at the end with whether the answer was read to its end.
    """

    def __init__(self, response: aiohttp.ClientResponse, give_back: Callable[[bool], None]) -> None:
        self._response = response
        self._give_back = give_back

    async def __aenter__(self) -> aiohttp.ClientResponse:
        """Return the answer."""
        return self._response

    async def __aexit__(self, *_: object) -> None:
        """Give the connection back, or close it if something of the answer is left."""
        complete = self._response.content.at_eof()
        try:
            self._response.release()
            await self._response.wait_for_close()
        finally:
            self._give_back(complete)


class Client:
    """Sends requests to some model servers; its callers limit how many at a time.

    Args:
        tls: Certificates that are trusted, and our own; None for those of the system.

    Attributes:
        unasked: Connections that were closed because a server sent something after its answer, by
            the kind of their requests.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.unasked = {"batch": 0, "passed": 0}
        self._tls = tls
        self._pools: dict[tuple[Address, str], Pool] = {}

    async def ask(
        self,
        address: Address,
        method: str,
        target: str,
        headers: Mapping[str, str],
        data: Any,
        *,
        kind: str,
    ) -> Exchange:
        """Send a request, and wait for the head of its answer.

        Args:
            address: The server.
            method: Of HTTP.
            target: Path and query, as they are sent.
            headers: All but those of the connection.
            data: The body, whole or while it comes; None if there is none.
            kind: `batch` or `passed`: the pool whose connections may be used.

        Raises:
            aiohttp.ClientError: There is no answer.
            UpstreamBroken: It is framed in a way that would be lost.
        """
        pool = self._pool(address, kind)
        connection = pool.take()
        sent = None if data is None else aiohttp.UploadTracker()
        response = None
        try:
            response = await connection.session.request(
                method,
                # All of it as a path: of a URL in one string an empty query would be lost.
                address.origin.with_path(target, encoded=True),
                headers=headers,
                data=data,
                server_hostname=address.tls_name,
                allow_redirects=False,
                upload_tracker=sent,
            )
            connection.has_answered()
            if sent and not (sent.bytes_written or sent.upload_complete.done()):
                self._count_unasked(address, kind)
                _hang_up()
            check_framing(response)
        except BaseException as error:
            if response is not None:
                response.close()
            pool.give_back(connection, reusable=False)
            if isinstance(error, _HUNG_UP):
                self._hung_up(address)
            raise
        reusable = _may_be_followed(method, headers, response.status, has_body=data is not None)
        return Exchange(
            response,
            lambda complete: pool.give_back(connection, reusable=reusable and complete),
        )

    def in_use(self, address: Address, kind: str) -> int:
        """Return how many connections of a pool carry a request now."""
        return self._pool(address, kind).in_use

    async def send(
        self,
        address: Address,
        method: str,
        target: str,
        message: Message,
        headers: Mapping[str, str],
        max_answer: int,
        timeout: float,  # noqa: ASYNC109  named in the error
    ) -> tuple[int, Message]:
        """Ask a server, and wait for the whole answer.

        Returns:
            Its status, and its body with all headers, names in lower case.

        Raises:
            UpstreamUnreachable: There is no connection to be had; nothing was sent.
            UpstreamLost: It hung up before it answered.
            UpstreamBroken: Its answer is no HTTP, breaks off, or is in a coding.
            UpstreamTooLarge: Its answer has more than `max_answer` bytes.
            WorkerTimeout: The answer was not there after `timeout` seconds.
        """
        size = message.size
        begun = False
        try:
            async with asyncio.timeout(timeout) as clock:
                told = _told(address, message, size, headers)
                exchange = await self.ask(
                    address, method, target, told, outgoing(message, size), kind="batch"
                )
                begun = True
                async with exchange as response:
                    body = await incoming(response, max_answer)
        except TimeoutError as error:
            if not clock.expired():  # aiohttp's own: while it connected
                raise UpstreamUnreachable(f"{address.name}: {error}") from error
            waited = format_duration(timeout)
            raise WorkerTimeout(f"{address.name} did not answer within {waited}") from None
        except aiohttp.ClientError as error:
            raise _meaning(error, address, begun=begun) from error
        return response.status, _answer(address, body, response.headers)

    async def aclose(self) -> None:
        """Close all connections."""
        pools = list(self._pools.values())
        self._pools.clear()
        for pool in pools:
            await pool.aclose()

    def _pool(self, address: Address, kind: str) -> Pool:
        pool = self._pools.get((address, kind))
        if pool is None:
            pool = Pool(address, self._tls, lambda: self._count_unasked(address, kind))
            self._pools[address, kind] = pool
        return pool

    def _hung_up(self, address: Address) -> None:
        for kind in self.unasked:
            if pool := self._pools.get((address, kind)):
                pool.renew()

    def _count_unasked(self, address: Address, kind: str) -> None:
        if not any(self.unasked.values()):
            _log.warning(
                "%s sent something after its answer, or before it was asked: the connection was"
                " closed; adaptive_batching_upstream_unasked_total counts such connections",
                address.name,
            )
        self.unasked[kind] += 1


def _hang_up() -> NoReturn:
    raise aiohttp.ServerDisconnectedError("it answered before it was asked")


def _may_be_followed(
    method: str, headers: Mapping[str, str], status: int, *, has_body: bool
) -> bool:
    """Whether another request may be sent after this one on its connection.

    Not if the server may disagree on where the request or the answer ended: some read no body of a
    GET, or none in chunks, and take it for a request; some send a body that must not be.
    """
    if method == hdrs.METH_HEAD or status in WITHOUT_BODY or status >= _FAILED:
        return False
    return not has_body or (method in _WITH_BODY and hdrs.CONTENT_LENGTH in headers)


def check_framing(response: aiohttp.ClientResponse) -> None:
    """Check that an answer ends where its head says, and that its head can be passed on.

    A coding of the body would be dropped and not undone, and aiohttp reads no body of the largest
    length that llhttp counts to.

    Raises:
        UpstreamBroken: The answer is in a coding that was not asked for, too long or no answer.
    """
    said = ",".join(response.headers.getall(hdrs.TRANSFER_ENCODING, ()))
    if said and not {coding.strip().lower() for coding in said.split(",")} <= _NO_CODINGS:
        msg = f"{response.url.origin()} answered with Transfer-Encoding: {said}, unasked"
        raise UpstreamBroken(msg)
    if (response.content_length or 0) > _MAX_LENGTH or response.status < _FIRST_STATUS:
        length = response.headers.get(hdrs.CONTENT_LENGTH)
        msg = f"{response.url.origin()} answered {response.status} with Content-Length: {length}"
        raise UpstreamBroken(msg)


def _told(
    address: Address, message: Message, size: int, headers: Mapping[str, str]
) -> CIMultiDict[str]:
    """The headers of a request whose body has so many bytes."""
    told = CIMultiDict(headers)
    told.setdefault("Host", address.host)
    told.update(message.headers)
    told["Content-Length"] = str(size)
    told["Accept-Encoding"] = "identity"
    return told


def _answer(address: Address, body: bytes, headers: Mapping[str, str]) -> Message:
    about = {name.lower(): value for name, value in headers.items()}
    if about.pop("content-encoding", "identity") != "identity":
        msg = f"{address.name} answered in a coding that it was asked not to use"
        raise UpstreamBroken(msg)
    return Message(body, about)


def _meaning(error: aiohttp.ClientError, address: Address, *, begun: bool) -> Exception:
    said = f"{address.name}: {type(error).__name__}: {error}"
    if isinstance(error, _NOT_CONNECTED):
        return UpstreamUnreachable(said)
    if isinstance(error, _HUNG_UP) and not begun:
        return UpstreamLost(said)
    return UpstreamBroken(said)
