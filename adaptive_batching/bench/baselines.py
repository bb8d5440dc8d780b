"""What ours is measured beside, with our server's settings: `python -m … LOOP KIND [UPSTREAM]`."""

import asyncio
import json
import sys
from functools import partial

import aiohttp
from aiohttp import web
from aiohttp.typedefs import Handler
from yarl import URL

from adaptive_batching.bench.apps import OverloadedModel
from adaptive_batching.bench.loops import loop_factory
from adaptive_batching.marshal.hop_by_hop import passed_on
from adaptive_batching.marshal.server import Server

_HEADERS = {"Content-Type": "application/json", "X-Request-Id": "1"}


async def _echo(request: web.BaseRequest) -> web.Response:
    """The baseline of HTTP: nothing behind."""
    return web.Response(body=await request.read(), headers=_HEADERS)


async def _model(request: web.BaseRequest) -> web.Response:
    """A model server of TensorFlow Serving's protocol that gives instances back as predictions."""
    rows = (await request.read()).replace(b'"instances"', b'"predictions"', 1)
    return web.Response(body=rows, headers=_HEADERS)


async def _tensors(request: web.BaseRequest) -> web.Response:
    """A model server of the Open Inference Protocol with one small number for each row."""
    if request.method != "POST":  # the statistics that Triton has
        return web.Response(status=404)
    length = int(request.headers["Inference-Header-Content-Length"])
    described = b""
    async for chunk in request.content.iter_any():  # the tensors are received and forgotten
        if len(described) < length:
            described += chunk
    rows = json.loads(described[:length])["inputs"][0]["shape"][0]
    output = {"name": "class", "datatype": "UINT8", "shape": [rows, 1], "data": [7] * rows}
    answer = {"model_name": "no-op", "outputs": [output]}
    return web.Response(body=json.dumps(answer).encode(), headers=_HEADERS)


class _SlowModel:
    """As `_model`, but it takes time, for one request after the other."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def __call__(self, request: web.BaseRequest) -> web.Response:
        items = len(json.loads(await request.read())["instances"])
        async with self._turn:
            await asyncio.sleep(OverloadedModel.fixed + items * OverloadedModel.per_item)
        return await _model(request)


async def _proxy(
    request: web.BaseRequest, session: aiohttp.ClientSession, server: str
) -> web.Response:
    """As it is written in ten lines: each request is one to the server."""
    sending = session.request(
        request.method,
        URL(server + request.raw_path, encoded=True),
        headers=passed_on(request.headers),
        data=await request.read(),
    )
    async with sending as response:
        answer = await response.read()
        return web.Response(
            status=response.status, body=answer, headers=passed_on(response.headers)
        )


async def _copy(
    request: web.BaseRequest, session: aiohttp.ClientSession, server: str
) -> web.StreamResponse:
    """Bytes go on as they come, in both directions, and none are kept."""
    sending = session.request(
        request.method,
        URL(server + request.raw_path, encoded=True),
        headers=passed_on(request.headers),
        data=request.content.iter_any(),
    )
    async with sending as response:
        answer = web.StreamResponse(status=response.status, headers=passed_on(response.headers))
        await answer.prepare(request)
        async for chunk in response.content.iter_any():
            await answer.write(chunk)
        return answer


async def _serve(handler: Handler) -> None:
    runner = web.ServerRunner(Server(handler))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    sys.stdout.write(f"http://127.0.0.1:{site.port}/\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


async def _main(kind: str, server: str = "") -> None:
    handlers: dict[str, Handler] = {
        "echo": _echo,
        "model": _model,
        "slow-model": _SlowModel(),
        "tensors": _tensors,
    }
    proxies = {"proxy": _proxy, "copy": _copy}
    if kind in handlers:
        await _serve(handlers[kind])
        return
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:
        await _serve(partial(proxies[kind], session=session, server=server))


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=loop_factory(sys.argv[1])) as runner:
        runner.run(_main(*sys.argv[2:]))
