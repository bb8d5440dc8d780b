"""Whether model servers take connections."""

import asyncio
import logging
import socket
from collections.abc import Iterable
from ssl import SSLContext

from adaptive_batching.errors import UsageError
from adaptive_batching.marshal.admin.active_health_check import UNREACHABLE
from adaptive_batching.marshal.sidecar.upstream.addresses import Location

_PATIENCE = 2.0  # seconds
# A listener there is also found under that name of this machine.
_ALSO_AT = {
    "127.0.0.1": {"0.0.0.0", "::", "localhost"},  # noqa: S104  they are only compared
    "localhost": {"0.0.0.0", "::", "127.0.0.1"},  # noqa: S104
    "::1": {"::"},
}
_log = logging.getLogger("adaptive_batching")


def check_elsewhere(
    servers: Iterable[Location], own: str | tuple[str, int], option: str = "--port"
) -> None:
    """See to it that no server is where we listen ourselves: requests would go round and round.

    Args:
        servers: Where requests will be sent.
        own: The host and port to listen on, or the path of a Unix socket.
        option: What says so.

    Raises:
        UsageError: One is.
    """
    for server in servers:
        if _is_at(server, own):
            msg = f"expected a model server, got {server}, where the sidecar itself is to listen"
            raise UsageError(f"{msg}: say another {option}, or where the server is")


async def warn_of_unreachable(servers: Iterable[tuple[Location, SSLContext | None]]) -> None:
    """Say which servers take no connection: a wrong port is best seen at once.

    A sidecar starts all the same.

    Args:
        servers: Each with what it is met with if it is reached by TLS, as in `reachability`.
    """
    await asyncio.gather(*(_try(server, tls) for server, tls in servers))


async def reachability(servers: Iterable[Location], tls: SSLContext | None = None) -> str:
    """`ok` if any of some servers takes connections.

    Args:
        servers: Where they are.
        tls: For those that are reached by TLS; None for the certificates of the system.
    """
    looks = [_connected(server, tls) for server in servers]
    found = await asyncio.gather(*looks, return_exceptions=True)
    return UNREACHABLE if all(isinstance(each, BaseException) for each in found) else "ok"


def _is_at(server: Location, own: str | tuple[str, int]) -> bool:
    if isinstance(own, str) or server.socket:
        return isinstance(own, str) and own == server.socket
    host, port, *_ = own
    name = server.origin.host or ""
    return server.origin.port == port and (name == host or host in _ALSO_AT.get(name, ()))


async def _try(server: Location, tls: SSLContext | None) -> None:
    try:
        await _connected(server, tls)
    except socket.gaierror:
        pass  # the look-up for requests has logged it
    except (OSError, TimeoutError) as error:
        reason = str(error) or f"no answer in {_PATIENCE:g} s"
        _log.warning(
            "upstream %s can't be reached: %s; requests get 502 until it can",
            server,
            reason,
            extra={"upstream": str(server), "reason": reason},
        )


async def _connected(server: Location, tls: SSLContext | None) -> None:
    async with asyncio.timeout(_PATIENCE):
        if server.socket:
            _, writer = await asyncio.open_unix_connection(server.socket)
        else:
            met_with = (tls or True) if server.origin.scheme == "https" else None
            host, port = server.origin.host, server.origin.port
            _, writer = await asyncio.open_connection(host, port, ssl=met_with)
    writer.close()
