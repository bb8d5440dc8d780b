"""A model server as it is often written: one call of the model at a time, for whatever comes.

`python -m adaptive_batching.demo.one_at_a_time` speaks KServe's first protocol.
"""

import asyncio
import sys

import msgspec
from aiohttp import web

from adaptive_batching.demo.digits import Digits


class _Call(msgspec.Struct):
    instances: list[list[float]]


async def serve() -> None:
    """Serve digits on a free port, and say where."""
    model = Digits()
    model.warmup()

    async def predict(request: web.Request) -> web.Response:
        call = msgspec.json.decode(await request.read(), type=_Call)
        answer = msgspec.json.encode({"predictions": model(call.instances)})
        return web.Response(body=answer, content_type="application/json")

    application = web.Application()
    application.router.add_post("/v1/models/digits:predict", predict)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    sys.stdout.write(f"http://127.0.0.1:{site.port}/\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve())
