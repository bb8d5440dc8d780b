"""Where model servers are: URLs, names with several addresses, Unix sockets."""

import asyncio
import re
import socket
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Self

from yarl import URL

from adaptive_batching.workers.external.socket_path import check_path

_LABEL = "[A-Za-z0-9_-]{1,63}"  # an underscore: names of Docker Compose have some
_HOST_NAME = re.compile(rf"(?=.{{1,254}}$){_LABEL}(\.{_LABEL})*\.?")


@dataclass(frozen=True, slots=True)
class Address:
    """One server.

    Attributes:
        name: What it is called in logs and metrics.
        origin: The URL without a path, to an IP address or, of a Unix socket, to localhost.
        host: What it is told that it is called.
        tls_name: Whose certificate it must have; None if that is in the URL.
        socket: The path of its Unix socket; empty if it has none.
        nowhere: Whether its name has no IP address so far.
    """

    name: str
    origin: URL
    host: str
    tls_name: str | None = None
    socket: str = ""
    nowhere: bool = False


@dataclass(frozen=True, slots=True)
class Location:
    """Where one or more servers that are alike can be found.

    Attributes:
        origin: The URL without a path; of a Unix socket, localhost.
        socket: The path of a Unix socket; empty if it is none.
    """

    origin: URL
    socket: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `http://host:port`, `https://host:port` or `unix:/path`.

        Raises:
            ValueError: It is something else.
        """
        scheme, _, path = text.partition(":")
        if scheme == "unix" and path.startswith("/") and not path.startswith("//"):
            check_path(path)
            return cls(URL("http://localhost"), path)
        places = "http://HOST:PORT or https://HOST:PORT without a path, or unix:/PATH"
        expected = f"expected {places}, got {text!r}"
        try:
            url = URL(text)
            origin = url.origin()
        except ValueError as error:
            raise ValueError(expected) from error
        bare = url.path in {"", "/"} and not url.query_string and not url.fragment and not url.user
        if origin.scheme not in {"http", "https"} or not bare or not origin.port:
            raise ValueError(expected)
        name = origin.raw_host or ""
        if not (_is_ip_address(name) or _HOST_NAME.fullmatch(name)):
            raise ValueError(f"expected the name of a host, such as model.local, got {name!r}")
        return cls(origin)

    def __str__(self) -> str:
        return f"unix:{self.socket}" if self.socket else str(self.origin)

    @property
    def changes(self) -> bool:
        """Whether other servers may be there tomorrow: it is a name."""
        return not self.socket and not _is_ip_address(self.origin.host or "")

    async def addresses(self) -> list[Address]:
        """The servers that are there now.

        Of a name with addresses of both kinds those of IPv4 count: most model servers listen on
        those only, and one that listens on both is not two servers.

        Raises:
            OSError: The name has no address.
        """
        if not self.changes:
            host = self.origin.raw_authority if not self.socket else "localhost"
            return [Address(str(self), self.origin, host, socket=self.socket)]
        loop = asyncio.get_running_loop()
        name, port = self.origin.host or "", self.origin.port
        found = await loop.getaddrinfo(name, port, type=socket.SOCK_STREAM)
        families = {family for family, *_ in found}
        wanted = socket.AF_INET if socket.AF_INET in families else socket.AF_INET6
        hosts = dict.fromkeys(str(to[0]) for family, *_, to in found if family is wanted)
        return [self._at(host) for host in hosts]

    def nowhere(self) -> Address:
        """What stands for a server whose name has no address."""
        return Address(str(self), self.origin, self.origin.raw_authority, nowhere=True)

    def _at(self, host: str) -> Address:
        origin = self.origin.with_host(host)
        tls_name = self.origin.host if self.origin.scheme == "https" else None
        return Address(str(origin), origin, self.origin.raw_authority, tls_name)


def _is_ip_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
