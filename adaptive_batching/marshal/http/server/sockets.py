"""Sockets to listen on, and what is said if there is none."""

import os
import socket

from adaptive_batching.errors import UsageError

_FIRST_PASSED = 3  # SD_LISTEN_FDS_START


class ListenError(OSError):
    """An address can't be listened on.

    Attributes:
        host: The address.
        unresolved: Whether it was a name that means nothing here.
    """

    def __init__(self, host: str, port: int, error: OSError | UnicodeError) -> None:
        self.host = host
        self.unresolved = isinstance(error, socket.gaierror | UnicodeError)
        reason = "the host's name can't be resolved" if self.unresolved else _reason(error)
        super().__init__(f"can't listen on {host} port {port}: {reason}")


def bound_sockets(host: str, port: int, *, shares_port: bool = False) -> list[socket.socket]:
    """Sockets on all addresses of a host, on one port; nothing listens yet.

    Args:
        host: A name or an address.
        port: The port; 0 takes a free one.
        shares_port: Whether other processes of ours may have it as well (SO_REUSEPORT, socket(7)).

    Raises:
        ListenError: The port is taken by another, or the address is not ours.
    """
    bound: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in dict.fromkeys(found):
            each = socket.socket(family, kind, protocol)
            bound.append(each)
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if shares_port:
                each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family is socket.AF_INET6:
                each.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            port = port or bound[0].getsockname()[1]
            each.bind((address[0], port, *address[2:]))
    except (OSError, UnicodeError) as error:
        for each in bound:
            each.close()
        raise ListenError(host, port, error) from error
    return bound


def passed_socket() -> socket.socket | None:
    """The listening socket that systemd, or another parent, has open for us (sd_listen_fds(3)).

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


def url_of(listening: socket.socket, host: str | None, *, secure: bool) -> str:
    """The URL of a socket; a Unix socket's as nginx writes it.

    That is what `proxy_pass http://unix:/run/digits.sock:/predict` begins with.

    Args:
        listening: The socket.
        host: What its address was asked for as; None if it was not.
        secure: Whether TLS is spoken there.
    """
    scheme, address = "https" if secure else "http", listening.getsockname()
    if listening.family is socket.AF_UNIX:
        return f"{scheme}://unix:{address}:"
    name = host or address[0]
    return f"{scheme}://{f'[{name}]' if ':' in name else name}:{address[1]}"


def _reason(error: OSError | UnicodeError) -> str:
    number = error.errno if isinstance(error, OSError) else None
    return os.strerror(number) if number else str(error)
