"""Connections to one model server, each used again only if it is in step.

A server that answers twice, or reads a body as another request, would give every later client the
answer of the client before. Therefore a connection rests after each answer for as long as the
slowest answer on it took to begin, and any byte that arrives before the next request closes it. An
extra answer that arrives after the next request was sent is taken for the answer to that request;
the true answer then arrives while the connection rests, and closes it.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from select import POLLIN, POLLRDHUP, poll
from time import monotonic
from typing import Any

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError

from adaptive_batching.marshal.sidecar.upstream.addresses import Address

_CONNECT_TIMEOUT = 2.0  # seconds; the server stands beside us
# Seconds that a connection is kept for another request. Gunicorn closes it after 2, uvicorn after
# 5; one that stood still closes many at once, though requests are on their way: be well before it.
_IDLE = 1.0


class _Connector(aiohttp.BaseConnector):
    """Opens one connection and no other, so that aiohttp cannot send a request a second time."""

    protocol: Any = None
    begin = 0.0  # when the request was sent for which it was asked last

    async def connect(self, req: aiohttp.ClientRequest, traces: Any, timeout: Any) -> Any:  # noqa: ASYNC109
        """Open the connection, or use it again."""
        if self.protocol is not None and not self.protocol.is_connected():
            raise aiohttp.ServerDisconnectedError
        connection = await super().connect(req, traces, timeout)
        self.protocol, self.begin = connection.protocol, monotonic()
        return connection


class _TCP(_Connector, aiohttp.TCPConnector):
    pass


class _Unix(_Connector, aiohttp.UnixConnector):
    pass


class Connection:
    """One connection to a server; it carries one request at a time.

    Args:
        address: The server.
        tls: Certificates that are trusted; None for those of the system.
        generation: The pool's, when the connection was opened.

    Attributes:
        session: Sends the requests.
        free_since: When the last answer ended.
    """

    def __init__(self, address: Address, tls: ssl.SSLContext | None, generation: int) -> None:
        self.generation = generation
        self.free_since = 0.0
        self._rest = 0.0
        kept: Any = {"limit": 0, "keepalive_timeout": None}  # the pool closes it
        if address.socket:
            self._connector: _Connector = _Unix(address.socket, **kept)
        else:
            self._connector = _TCP(ssl=True if tls is None else tls, **kept)
        self.session = aiohttp.ClientSession(
            connector=self._connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_TIMEOUT),
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        )

    def has_answered(self) -> None:
        """Note that an answer begins: the connection will rest for as long as that took."""
        self._rest = max(self._rest, monotonic() - self._connector.begin)

    def has_rested(self, now: float) -> bool:
        """Whether the true answer would be there by now if the last one was not."""
        return now - self.free_since >= self._rest

    @property
    def can_rest(self) -> bool:
        """Whether it will have rested before it would be closed."""
        return self._rest < _IDLE

    @property
    def is_silent(self) -> bool:
        """Whether the connection is open and the server has sent nothing since its answer."""
        protocol = self._connector.protocol
        return protocol.is_connected() and not (protocol.should_close or self._readable)

    @property
    def has_unasked(self) -> bool:
        """Whether the server has sent something after its answer."""
        protocol = self._connector.protocol
        if len(protocol) or isinstance(protocol.exception(), HttpProcessingError):
            return True
        return protocol.is_connected() and (protocol.should_close or self._readable == POLLIN)

    @property
    def _readable(self) -> int:
        """What the kernel has for us: nothing, bytes (`POLLIN`), or the end as well."""
        descriptors = poll()
        sock = self._connector.protocol.transport.get_extra_info("socket")
        descriptors.register(sock.fileno(), POLLIN | POLLRDHUP)
        return sum(events for _, events in descriptors.poll(0))


class Pool:
    """The connections to one server for requests of one kind.

    Args:
        address: The server.
        tls: Certificates that are trusted; None for those of the system.
        on_unasked: Called for each connection that was closed because the server sent something
            after its answer.
    """

    def __init__(
        self, address: Address, tls: ssl.SSLContext | None, on_unasked: Callable[[], None]
    ) -> None:
        self._address = address
        self._tls = tls
        self._on_unasked = on_unasked
        self._generation = 0
        self._free: deque[Connection] = deque()  # the longest free first
        self._used: set[Connection] = set()
        self._expiry: asyncio.TimerHandle | None = None
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def in_use(self) -> int:
        """Connections that carry a request now."""
        return len(self._used)

    def take(self) -> Connection:
        """Return a connection that has rested, or a new one."""
        connection = self._rested() or Connection(self._address, self._tls, self._generation)
        self._used.add(connection)
        return connection

    def give_back(self, connection: Connection, *, reusable: bool) -> None:
        """Keep a connection for another request, or close it.

        Args:
            connection: From `take`.
            reusable: Whether its answer is complete and allows for another request.
        """
        self._used.discard(connection)
        connection.free_since = monotonic()
        current = connection.generation == self._generation and connection.can_rest
        if reusable and current and connection.is_silent:
            self._free.append(connection)
            if self._expiry is None:
                self._expiry = asyncio.get_running_loop().call_later(_IDLE, self._expire)
        else:
            self._close(connection, answered=reusable)

    def renew(self) -> None:
        """Use no connection again that was opened before now.

        A server that hung up on one may have hung up on others.
        """
        self._generation += 1
        while self._free:
            self._close(self._free.popleft())

    async def aclose(self) -> None:
        """Close all connections."""
        self.renew()
        for connection in self._used:
            self._close(connection, answered=False)
        if self._expiry is not None:
            self._expiry.cancel()
        await asyncio.gather(*self._closing)

    def _rested(self) -> Connection | None:
        now = monotonic()
        while connection := next((each for each in self._free if each.has_rested(now)), None):
            self._free.remove(connection)
            if connection.is_silent:
                return connection
            self._close(connection)
        return None

    def _expire(self) -> None:
        """Close connections that were free for too long."""
        now = monotonic()
        while self._free and now - self._free[0].free_since >= _IDLE:
            self._close(self._free.popleft())
        self._expiry = None
        if self._free:
            left = self._free[0].free_since + _IDLE - now
            self._expiry = asyncio.get_running_loop().call_later(left, self._expire)

    def _close(self, connection: Connection, *, answered: bool = True) -> None:
        if answered and connection.has_unasked:
            self._on_unasked()
        closing = asyncio.ensure_future(connection.session.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
