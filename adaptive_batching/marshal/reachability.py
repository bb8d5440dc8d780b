"""Whether model servers take connections."""

import asyncio
import logging
from collections.abc import Iterable

from adaptive_batching.marshal.deep_check import UNREACHABLE
from adaptive_batching.workers.upstream_addresses import Location

_PATIENCE = 2.0  # seconds
_log = logging.getLogger("adaptive_batching")


async def warn_of_unreachable(servers: Iterable[Location]) -> None:
    """Say which servers take no connection: a wrong port is best seen at once.

    A sidecar starts all the same.
    """
    await asyncio.gather(*(_try(server) for server in servers))


async def reachability(servers: Iterable[Location]) -> str:
    """`ok` if any of some servers takes connections."""
    found = await asyncio.gather(*map(_connected, servers), return_exceptions=True)
    return UNREACHABLE if all(isinstance(each, BaseException) for each in found) else "ok"


async def _try(server: Location) -> None:
    try:
        await _connected(server)
    except (OSError, TimeoutError) as error:
        reason = str(error) or f"no answer in {_PATIENCE:g} s"
        _log.warning(
            "upstream %s can't be reached: %s; requests get 502 until it can",
            server,
            reason,
            extra={"upstream": str(server), "reason": reason},
        )


async def _connected(server: Location) -> None:
    async with asyncio.timeout(_PATIENCE):
        if server.socket:
            _, writer = await asyncio.open_unix_connection(server.socket)
        else:
            _, writer = await asyncio.open_connection(server.origin.host, server.origin.port)
    writer.close()
