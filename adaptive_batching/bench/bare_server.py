"""The baseline of HTTP: our server's settings with nothing behind; `python -m … LOOP`."""

import asyncio
import sys

from aiohttp import web

from adaptive_batching.bench.loops import loop_factory
from adaptive_batching.marshal.server import Server


async def _echo(request: web.BaseRequest) -> web.Response:
    return web.Response(
        body=await request.read(), headers={"Content-Type": "application/json", "X-Request-Id": "1"}
    )


async def _serve() -> None:
    runner = web.ServerRunner(Server(_echo))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    sys.stdout.write(f"http://127.0.0.1:{site.port}/\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=loop_factory(sys.argv[1])) as runner:
        runner.run(_serve())
