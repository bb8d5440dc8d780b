"""A tiny server that the generators are tried on."""

import asyncio
from collections import Counter
from contextlib import asynccontextmanager

from aiohttp import web


class Tiny:
    """Echoes; `/refuse` says 503, `/fail` 500, `/drop` hangs up, `/slow` takes its time."""

    def __init__(self):
        self.url = ""
        self.seen = Counter()
        self.names = set()
        self.most = self.under_way = 0

    async def answer(self, request):
        body = await request.content.read()
        self.seen[request.path] += 1
        self.names.add((request.headers["X-Request-Id"], request.headers["traceparent"]))
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            return await self._answer(request, body)
        finally:
            self.under_way -= 1

    async def _answer(self, request, body):
        if request.path == "/drop":
            request.transport.abort()
        if request.path == "/slow":
            await asyncio.sleep(0.05)
        status = {"/refuse": 503, "/fail": 500}.get(request.path, 200)
        response = web.Response(status=status, body=body)
        if request.path == "/once":
            response.force_close()
        return response


@asynccontextmanager
async def tiny_server():
    tiny = Tiny()
    runner = web.ServerRunner(web.Server(tiny.answer))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    tiny.url = f"http://127.0.0.1:{site.port}"
    try:
        yield tiny
    finally:
        await runner.cleanup()
