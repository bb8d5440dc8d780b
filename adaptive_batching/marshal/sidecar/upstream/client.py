"""The HTTP client for model servers: it does nothing of its own accord.

No cookies from one client to the next, no redirects to somewhere else, no proxy from the
environment, no inflating, no sending twice; and whatever a server does instead of answering has one
meaning each.
"""

import asyncio
import ssl
from collections.abc import Mapping
from time import monotonic
from typing import Any

import aiohttp
from aiohttp import hdrs
from multidict import CIMultiDict

from adaptive_batching.errors import (
    UpstreamBroken,
    UpstreamLost,
    UpstreamUnreachable,
    WorkerTimeout,
)
from adaptive_batching.marshal.sidecar.upstream.addresses import Address
from adaptive_batching.marshal.sidecar.upstream.bodies import incoming, outgoing
from adaptive_batching.marshal.sidecar.upstream.response import Response
from adaptive_batching.units import format_duration
from adaptive_batching.wire.exchange import Message

_CONNECT_TIMEOUT = 2.0  # seconds; the server stands beside us
# Seconds that a connection is kept for another request. Gunicorn closes it after 2, uvicorn after
# 5; one that stood still closes many at once, though requests are on their way: be well before it.
_IDLE = 1.0
_NOT_CONNECTED = (
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.ClientSSLError,
    aiohttp.ServerFingerprintMismatch,
)
_NO_CODINGS = frozenset({"", "chunked", "identity"})
HUNG_UP = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError)
"""What it is, if it was connected, that a server ended the connection."""


class Client:
    """Connections to some model servers.

    How many there are is limited by whoever asks for them.

    Args:
        tls: Whom to believe that it is who it says, and how to say who we are; None for what the
            system believes.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self._sessions: dict[tuple[str, bool], aiohttp.ClientSession] = {}
        self._distrusted: dict[Address, float] = {}

    def session(self, address: Address) -> aiohttp.ClientSession:
        """What requests to a server are sent with.

        For a while after the server hung up, each has a new connection: it may have closed others.
        """
        fresh = bool(self._distrusted) and self._is_distrusted(address)
        session = self._sessions.get((address.socket, fresh))
        if session is None:
            session = _session(self._connector(address, fresh=fresh))
            self._sessions[address.socket, fresh] = session
        return session

    def hung_up(self, address: Address) -> None:
        """Use no connection to a server that was opened before now."""
        self._distrusted[address] = monotonic() + _IDLE

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
                sending = self.session(address).request(
                    method,
                    # All of it as a path: of a URL in one string an empty query would be lost.
                    address.origin.with_path(target, encoded=True),
                    data=outgoing(message, size),
                    headers=_told(address, message, size, headers),
                    server_hostname=address.tls_name,
                    allow_redirects=False,
                )
                async with sending as response:
                    begun = True
                    check_coding(response)
                    body = await incoming(response, max_answer)
        except TimeoutError as error:
            if not clock.expired():  # aiohttp's own: while it connected
                raise UpstreamUnreachable(f"{address.name}: {error}") from error
            waited = format_duration(timeout)
            raise WorkerTimeout(f"{address.name} did not answer within {waited}") from None
        except aiohttp.ClientError as error:
            if isinstance(error, HUNG_UP):
                self.hung_up(address)
            raise _meaning(error, address, begun=begun) from error
        return response.status, _answer(address, body, response.headers)

    async def aclose(self) -> None:
        """Close all connections."""
        sessions = list(self._sessions.values())
        self._sessions.clear()
        for session in sessions:
            await session.close()

    def _is_distrusted(self, address: Address) -> bool:
        if monotonic() < self._distrusted.get(address, 0.0):
            return True
        self._distrusted.pop(address, None)
        return False

    def _connector(self, address: Address, *, fresh: bool) -> aiohttp.BaseConnector:
        kept: dict[str, Any] = {"force_close": True} if fresh else {"keepalive_timeout": _IDLE}
        if address.socket:
            return aiohttp.UnixConnector(address.socket, limit=0, **kept)
        return aiohttp.TCPConnector(limit=0, ssl=True if self._tls is None else self._tls, **kept)


def check_coding(response: aiohttp.ClientResponse) -> None:
    """See to it that a body comes as it is, or in chunks: a coding would be dropped and not undone.

    Raises:
        UpstreamBroken: It comes in another coding, which nobody has asked for.
    """
    said = ",".join(response.headers.getall(hdrs.TRANSFER_ENCODING, ()))
    if said and not {coding.strip().lower() for coding in said.split(",")} <= _NO_CODINGS:
        msg = f"{response.url.origin()} answered with Transfer-Encoding: {said}, unasked"
        raise UpstreamBroken(msg)


def _session(connector: aiohttp.BaseConnector) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=connector,
        response_class=Response,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        trust_env=False,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_TIMEOUT),
        skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
    )


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
    if isinstance(error, HUNG_UP) and not begun:
        return UpstreamLost(said)
    return UpstreamBroken(said)
