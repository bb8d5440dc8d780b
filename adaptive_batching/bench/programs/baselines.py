"""What ours is measured beside: `python -m … LOOP KIND [UPSTREAM]`."""

import asyncio
import json
import sys
from collections.abc import Callable
from functools import partial
from typing import cast

import aiohttp
import httptools
import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler
from yarl import URL

from adaptive_batching.bench.harness.loops import loop_factory
from adaptive_batching.bench.programs.apps import OverloadedModel
from adaptive_batching.marshal.sidecar.proxy_headers import passed_on

_HEADERS = {"Content-Type": "application/json", "X-Request-Id": "1"}
_ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Request-Id: 1\r\n"
    b"Content-Length: %d\r\n\r\n%b"
)


async def _route(request: web.BaseRequest) -> web.Response:
    """The baseline of HTTP: JSON in and out, and nothing behind."""
    item = msgspec.json.decode(await request.read())
    return web.Response(body=msgspec.json.encode(item), headers=_HEADERS)


class _Protocol(asyncio.Protocol):
    """The floor: does as `_route`, without limits, errors or anything else of a server."""

    def __init__(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._body = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        """Called by the parser."""
        self._body += body

    def on_message_complete(self) -> None:
        """Called by the parser."""
        result = msgspec.json.encode(msgspec.json.decode(self._body))
        self._body = b""
        self._transport.write(_ANSWER % (len(result), result))


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
    application = web.Application(client_max_size=2**30)
    application.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    assert runner.server is not None
    await _listen(runner.server)


async def _listen(protocol: Callable[[], asyncio.Protocol]) -> None:
    server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    sys.stdout.write(f"http://127.0.0.1:{port}/\n")
    sys.stdout.flush()
    await server.serve_forever()


async def _main(kind: str, server: str = "") -> None:
    handlers: dict[str, Handler] = {
        "route": _route,
        "model": _model,
        "slow-model": _SlowModel(),
        "tensors": _tensors,
    }
    proxies = {"proxy": _proxy, "copy": _copy}
    if kind == "protocol":
        await _listen(_Protocol)
        return
    if kind in handlers:
        await _serve(handlers[kind])
        return
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:
        await _serve(partial(proxies[kind], session=session, server=server))


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=loop_factory(sys.argv[1])) as runner:
        runner.run(_main(*sys.argv[2:]))
