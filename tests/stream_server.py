"""A server of a test's own, for what no HTTP library would do."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(serve: Serve, **options: Any) -> AsyncIterator[str]:
    """Call a function for each connection, until the test ends; yields the server's URL.

    asyncio's own server leaves a connection open whose task was cancelled, also before its first
    step; the collector then complains in whatever test it runs.

    Args:
        serve: Async function of a reader and a writer.
        options: Of `asyncio.start_server`, or of `asyncio.start_unix_server` with a `path`.
    """
    connections: dict[asyncio.Future[None], asyncio.StreamWriter] = {}
    sockets: dict[asyncio.Future[None], Any] = {}

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(serve(reader, writer))
        connections[task], sockets[task] = writer, writer.get_extra_info("socket")

    if "path" in options:
        server = await asyncio.start_unix_server(connected, **options)
        url = f"unix:{options['path']}"
    else:
        where = {} if "sock" in options else {"host": "127.0.0.1", "port": 0}
        server = await asyncio.start_server(connected, **where, **options)
        port = server.sockets[0].getsockname()[1]
        url = f"{'https' if 'ssl' in options else 'http'}://127.0.0.1:{port}"
    try:
        yield url
    finally:
        for _ in range(5):  # asyncio loses a connection whose listener closes as it is accepted
            await asyncio.sleep(0)
        server.close()
        for task, writer in connections.items():
            task.cancel()
            if sockets[task].fileno() >= 0:  # of a connection that is lost, aborting fails
                writer.transport.abort()
        await asyncio.gather(*connections, return_exceptions=True)
        await server.wait_closed()
