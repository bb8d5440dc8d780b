"""Where connections come in, and what is said if they can't."""

import asyncio
import os
import socket
import ssl
from typing import Any

from aiohttp import web

from adaptive_batching.errors import UsageError

_FIRST_PASSED = 3  # SD_LISTEN_FDS_START
_HANDSHAKE = 10.0  # seconds; until it is over, a connection is not among those that are counted
_BACKLOG = 1024  # a burst of new connections; the kernel cuts it to net.core.somaxconn


class ListenError(OSError):
    """Nobody can be listened to at an address.

    Attributes:
        host: The address.
        unresolved: Whether it was a name that means nothing here.
    """

    def __init__(self, host: str, port: int, error: OSError | UnicodeError) -> None:
        self.host = host
        self.unresolved = isinstance(error, socket.gaierror | UnicodeError)
        reason = "the host's name can't be resolved" if self.unresolved else _reason(error)
        super().__init__(f"can't listen on {host} port {port}: {reason}")


async def listen(
    runner: web.ServerRunner,
    host: str,
    port: int,
    bound: socket.socket | None = None,
    tls: ssl.SSLContext | None = None,
) -> str:
    """Accept connections from now on, and return the URL.

    Args:
        runner: Who answers.
        host: The address.
        port: The port; 0 takes a free one.
        bound: A socket to listen on instead.
        tls: What clients are met with; None for plain HTTP.

    Raises:
        ListenError: The port is taken, or the address is not ours.
    """
    site = _Site(runner, host, port, bound, tls)
    try:
        await site.start()
    except (OSError, UnicodeError) as error:
        if bound is not None and bound.family is socket.AF_UNIX:
            raise
        raise ListenError(host, port, error) from error
    return site.name


class _Site(web.BaseSite):
    """Where a runner listens; aiohttp's own can't be told how long a handshake may take."""

    def __init__(
        self,
        runner: web.ServerRunner,
        host: str,
        port: int,
        bound: socket.socket | None,
        tls: ssl.SSLContext | None,
    ) -> None:
        super().__init__(runner, ssl_context=tls, backlog=_BACKLOG)
        self._place: dict[str, Any] = {"host": host, "port": port}
        self._host = host
        if bound is not None:
            self._place = {"sock": bound}

    @property
    def name(self) -> str:
        """The URL, once it listens."""
        server: Any = self._server  # asyncio's or uvloop's
        listening = server.sockets[0]
        scheme, address = "http" if self._ssl_context is None else "https", listening.getsockname()
        if listening.family is socket.AF_UNIX:
            return _url_of_socket(scheme, address)
        return _url(scheme, address[0] if "sock" in self._place else self._host, address[1])

    async def start(self) -> None:
        """Accept connections from now on."""
        await super().start()
        if (bound := self._place.get("sock")) is not None:
            bound.listen(self._backlog)  # uvloop says nothing if another one listens there by now
        how = {**self._place, "ssl": self._ssl_context, "backlog": self._backlog}
        if self._ssl_context is not None:
            how["ssl_handshake_timeout"] = _HANDSHAKE
        server = self._runner.server
        assert server is not None
        self._server = await asyncio.get_running_loop().create_server(server, **how)


def passed_socket() -> socket.socket | None:
    """The listening socket that systemd, or whoever started us, has open for us (sd_listen_fds(3)).

    Raises:
        UsageError: It is not one socket, of TCP or a Unix socket.
    """
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return None
    number = os.environ.get("LISTEN_FDS", "0")
    if number != "1":
        raise UsageError(f"LISTEN_FDS: expected one socket, got {number}")
    passed = socket.socket(fileno=_FIRST_PASSED)
    if passed.family not in {socket.AF_INET, socket.AF_INET6, socket.AF_UNIX}:
        raise UsageError(f"LISTEN_FDS: expected a TCP or Unix socket, got {passed.family.name}")
    return passed


def shared_socket(host: str, port: int) -> socket.socket:
    """A socket on a port that other processes of ours may have as well (SO_REUSEPORT, socket(7)).

    Raises:
        ListenError: The port is taken by another, or the address is not ours.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        shared = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise ListenError(host, port, error) from error
    try:
        shared.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        shared.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        shared.bind(address)
    except OSError as error:
        shared.close()
        raise ListenError(host, port, error) from error
    return shared


def _url_of_socket(scheme: str, path: str) -> str:
    """As nginx writes it: `proxy_pass http://unix:/run/digits.sock:/predict`."""
    return f"{scheme}://unix:{path}:"


def _url(scheme: str, host: str, port: int) -> str:
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def _reason(error: OSError | UnicodeError) -> str:
    number = error.errno if isinstance(error, OSError) else None
    return os.strerror(number) if number else str(error)
