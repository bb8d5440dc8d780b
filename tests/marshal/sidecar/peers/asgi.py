"""An ASGI server of a screen: applications answer on real sockets, and nothing is between."""

import asyncio
from contextlib import asynccontextmanager

from aiohttp import web


@asynccontextmanager
async def served(app, path=None):
    """Serve an application on a port, or on a Unix socket; gives the URL or the path."""
    runner = web.ServerRunner(web.Server(lambda request: _answer(app, request, path)))
    await runner.setup()
    site = web.UnixSite(runner, path) if path else web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield path or f"http://127.0.0.1:{site.port}"
    finally:
        await runner.cleanup()


async def _answer(app, request, path):
    body = asyncio.Queue()
    body.put_nowait({"type": "http.request", "body": await request.read()})
    said = []

    async def send(message):
        said.append(message)

    scope = {
        "type": "http",
        "method": request.method,
        "path": request.path,
        "raw_path": request.rel_url.raw_path.encode(),
        "query_string": request.rel_url.raw_query_string.encode(),
        "headers": [(name.lower(), value) for name, value in request.raw_headers],
        "server": (path, None) if path else ("127.0.0.1", 80),
    }
    await app(scope, body.get, send)
    start, end = said
    headers = [(name.decode(), value.decode()) for name, value in start["headers"]]
    return web.Response(status=start["status"], headers=headers, body=end["body"])
