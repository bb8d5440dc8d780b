"""A model server that remembers what it was asked, and sidecars before it; all on real sockets."""

import asyncio
import json
from contextlib import AsyncExitStack

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from adaptive_batching.marshal.config.limits import Bounds
from adaptive_batching.marshal.sidecar.route import Route, Terms
from adaptive_batching.marshal.sidecar.runner import SidecarRunning
from adaptive_batching.marshal.sidecar.upstream.addresses import Location
from adaptive_batching.wire.tensorflow import TensorFlowServing
from tests.workers.conditions import until


class ModelServer:
    """Doubles instances as TensorFlow Serving would; some instances have other effects."""

    def __init__(self):
        self.batches = []
        self.seen = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.url = None

    def application(self):
        application = web.Application()
        application.router.add_post("/v1/models/{model}:predict", self._predict)
        application.router.add_get("/stream", self._stream)
        application.router.add_get("/socket", self._socket)
        application.router.add_route("*", "/{tail:.*}", self._echo)
        return application

    async def _predict(self, request):
        instances = json.loads(await request.text())["instances"]
        self.batches.append(instances)
        self.seen.append(request.headers)
        await self.gate.wait()
        if "bad" in instances:
            return web.json_response({"error": "bad instance"}, status=400)
        if "busy" in instances:
            return web.json_response({"error": "no time"}, status=503, headers={"Retry-After": "7"})
        doubled = [2 * instance for instance in instances]
        if "short" in instances and len(instances) > 1:
            doubled.pop()
        return web.json_response({"predictions": doubled}, headers={"Set-Cookie": "who=me"})

    async def _stream(self, request):
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for number in range(3):
            await response.write(f"data: {number}\n\n".encode())
            await self.gate.wait()
        return response

    async def _socket(self, request):
        """Says everything twice, and 4000 is what it closes with."""
        socket = web.WebSocketResponse(protocols=["echo"])
        await socket.prepare(request)
        async for message in socket:
            if message.data == "leave":
                await socket.close(code=4000)
            elif message.type is aiohttp.WSMsgType.TEXT:
                await socket.send_str(2 * message.data)
            else:
                await socket.send_bytes(2 * message.data)
        return socket

    async def _echo(self, request):
        self.seen.append(request.headers)
        body = await request.read()
        told = f"{request.method} {request.raw_path} {len(body)}".encode()
        return web.Response(body=told, headers={"Set-Cookie": "a=b", "ETag": '"1"'})


@pytest.fixture
async def model():
    server = ModelServer()
    runner = web.AppRunner(server.application())
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = URL(f"http://127.0.0.1:{site.port}")
    yield server
    server.gate.set()
    await runner.cleanup()


@pytest.fixture
async def before(model):
    """Start a sidecar before the model server or others; returns a client.

    What is not said otherwise are terms; `more` is for the sidecar itself.
    """
    async with AsyncExitStack() as stack:

        async def start(
            *,
            server=None,
            servers=(),
            form=None,
            policy="greedy",
            more=None,
            bounds=None,
            tracer=None,
            observers=(),
            **terms,
        ):
            route = Route(
                "models",
                [Location.parse(each) for each in servers or [str(server or model.url)]],
                form or TensorFlowServing(),
                Terms(**terms),
                policy=policy,
                **{"timeout": 5.0, **(more or {})},
            )
            running = SidecarRunning(
                [route],
                bounds=bounds or Bounds(),
                admin=("127.0.0.1", 0),
                observers={"models": observers},
                tracer=tracer,
            )
            stack.push_async_callback(running.stop, 1.0)
            await running.start("127.0.0.1", 0)
            session = await stack.enter_async_context(aiohttp.ClientSession())
            return Client(session, running)

        yield start


class Client:
    """Asks a sidecar."""

    def __init__(self, session, running):
        self.session = session
        self.running = running
        self.url = running.url

    async def predict(self, *instances, model="m", **headers):
        """Status, JSON and headers of the answer."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        body = {"instances": instances}
        url = f"{self.url}/v1/models/{model}:predict"
        async with self.session.post(url, json=body, headers=named) as response:
            return response.status, await response.json(), response.headers

    async def together(self, model, *requests, queued):
        """Let requests wait behind the first, which the server holds, so that they share batches.

        Args:
            model: The server.
            requests: Coroutines.
            queued: Items that wait when all but the first do.
        """
        model.gate.clear()
        tasks = [asyncio.ensure_future(requests[0])]
        await until(lambda: model.batches)
        tasks += [asyncio.ensure_future(each) for each in requests[1:]]
        await until(lambda: self.running.dispatchers["models"].stats().queued == queued)
        model.gate.set()
        return await asyncio.gather(*tasks)
