"""Whether model servers are there when the sidecar starts; it starts all the same."""

import asyncio
import logging
from collections.abc import Iterable

from adaptive_batching.workers.upstream_addresses import Location

_PATIENCE = 2.0  # seconds
_log = logging.getLogger("adaptive_batching")


async def warn_of_unreachable(servers: Iterable[Location]) -> None:
    """Say which servers take no connection: a wrong port is best seen at once."""
    await asyncio.gather(*(_try(server) for server in servers))


async def _try(server: Location) -> None:
    try:
        async with asyncio.timeout(_PATIENCE):
            writer = await _connect(server)
    except (OSError, TimeoutError) as error:
        reason = str(error) or f"no answer in {_PATIENCE:g} s"
        _log.warning(
            "upstream %s can't be reached: %s; requests get 502 until it can",
            server,
            reason,
            extra={"upstream": str(server), "reason": reason},
        )
    else:
        writer.close()


async def _connect(server: Location) -> asyncio.StreamWriter:
    if server.socket:
        _, writer = await asyncio.open_unix_connection(server.socket)
    else:
        _, writer = await asyncio.open_connection(server.origin.host, server.origin.port)
    return writer
