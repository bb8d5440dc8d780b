"""Batched functions in applications of others: their errors, and their lives."""

import asyncio
import logging
from contextlib import asynccontextmanager

import aiohttp
import pytest
import uvicorn
from aiohttp import web
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from adaptive_batching import batched
from adaptive_batching.contrib import aiohttp as for_aiohttp
from adaptive_batching.contrib import fastapi as for_fastapi
from adaptive_batching.contrib import starlette as for_starlette
from adaptive_batching.errors import InvalidItem, TenantQueueFull, WorkerLost
from tests.marshal.client import Answer, until


class Model:
    """A model that waits for its gate, with as few places in its queue as in a batch."""

    def __init__(self, **limits):
        self.gate = asyncio.Event()
        self.gate.set()

        @batched(max_batch_size=4, max_queue=4, **limits)
        async def double(items):
            await self.gate.wait()
            return [
                {0: InvalidItem("$.x", "bad"), 1: TenantQueueFull("")}.get(i, 2 * i) for i in items
            ]

        self.double = double


@asynccontextmanager
async def under_uvicorn(application):
    """What an ASGI server runs; gives its URL."""
    server = uvicorn.Server(uvicorn.Config(application, port=0, log_config=None, ws="none"))
    serving = asyncio.create_task(server.serve())
    try:
        await until(lambda: server.started or serving.done())
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving


def in_fastapi(double):
    app = FastAPI(lifespan=for_fastapi.lifespan(double))
    for_fastapi.install(app)

    @app.get("/double/{x}")
    async def answer(x: int) -> int:
        return await double(x)

    return under_uvicorn(app)


def in_starlette(double):
    async def answer(request):
        return JSONResponse(await double(int(request.path_params["x"])))

    app = Starlette(routes=[Route("/double/{x}", answer)], lifespan=for_starlette.lifespan(double))
    for_starlette.install(app)
    return under_uvicorn(app)


@asynccontextmanager
async def in_aiohttp(double):
    async def answer(request):
        return web.json_response(await double(int(request.match_info["x"])))

    app = web.Application()
    app.router.add_get("/double/{x}", answer)
    for_aiohttp.install(app)
    app.cleanup_ctx.append(for_aiohttp.lifespan(double))
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{site.port}"
    finally:
        await runner.cleanup()


EVERYWHERE = pytest.mark.parametrize("place", [in_fastapi, in_starlette, in_aiohttp])


@asynccontextmanager
async def asking(place, model):
    """Ask an application for the double of a number."""
    connector = aiohttp.TCPConnector(limit=0)
    async with place(model.double) as url, aiohttp.ClientSession(connector=connector) as session:

        async def ask(x, **headers):
            async with session.get(f"{url}/double/{x}", headers=headers) as response:
                return Answer(response.status, response.headers, await response.read())

        yield ask


@EVERYWHERE
async def test_a_flood_is_refused_and_nothing_breaks(place, caplog):
    """All are answered 200, 503 with `Retry-After`, or 504; the log has a line for each kind."""
    caplog.set_level(logging.INFO)
    model = Model(max_latency=0.5)
    async with asking(place, model) as ask:
        model.gate.clear()
        answers = await asyncio.gather(*(ask(2) for _ in range(100)))
        model.gate.set()
        assert {answer.status for answer in answers} == {503, 504}
        for answer in answers:
            assert answer.error in {"queue_full", "overloaded", "deadline_exceeded"}
            assert answer.headers["X-Request-Id"] == answer.json["request_id"]
            assert (int(answer.headers.get("Retry-After", 0)) >= 1) == (answer.status == 503)
        while (answer := await ask(2)).status != 200:  # the model was slow, and is soon believed
            assert answer.status in {503, 504}
        assert answer.json == 4
    said = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert all(each.name == "adaptive_batching.marshal" and not each.exc_info for each in said)
    assert len(said) < 20
    assert said[0].endpoint == "/double/{x}" or place is in_starlette


@EVERYWHERE
async def test_a_mistake_of_a_client_is_its_own(place):
    """An item that is wrong is told so under the client's own id, and its neighbour is answered."""
    async with asking(place, Model(policy="window:1h")) as ask:
        ours, limited, *others = await asyncio.gather(
            ask(0, **{"X-Request-Id": "abc"}), ask(1), ask(2), ask(3)
        )
    assert ours.status == 422
    assert ours.json == {
        "error": "invalid_item", "request_id": "abc", "path": "$.x", "message": "bad",
    }  # fmt: skip
    assert (limited.status, limited.error, "Retry-After" in limited.headers) == (
        429,
        "tenant_limit",
        True,
    )
    assert [answer.json for answer in others] == [4, 6]


async def test_a_lifespan_around_the_own_one():
    """Workers are ready before it and end after it; what it yields is the application's state."""
    model, seen = Model(), []

    @asynccontextmanager
    async def own(_app):
        seen.append(model.double.stats().workers)
        yield {"answer": await model.double(21)}
        seen.append(await model.double(2))

    async def state(request):
        return JSONResponse(request.state.answer)

    living = for_starlette.lifespan(model.double, own=own)
    app = Starlette(routes=[Route("/", state)], lifespan=living)
    async with under_uvicorn(app) as url, aiohttp.request("GET", url) as response:
        assert await response.json() == 42
    assert seen == [1, 4]


@pytest.mark.parametrize("made", [for_starlette.lifespan, for_aiohttp.lifespan])
def test_what_has_no_life_is_refused_where_it_is_given(made):
    """A class that nothing was made of, say."""
    with pytest.raises(TypeError, match=r"got <class '.*Model'>: give what `batched\(…\)` made"):
        made(Model)


@pytest.mark.parametrize(
    ("error", "code"), [(TenantQueueFull("too many"), 1013), (WorkerLost("it died"), 1011)]
)
async def test_a_websocket_is_closed(error, code, caplog):
    """With a code that says whether to come again; the log says what was our fault."""
    app = Starlette()
    for_starlette.install(app)

    async def route(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        raise error

    app.mount("/", route)
    sent, received = [], iter([{"type": "websocket.connect"}])
    scope = {"type": "websocket", "path": "/", "headers": [], "query_string": b""}

    async def receive():
        return next(received)

    async def send(message):
        sent.append(message)

    await app(scope, receive, send)
    assert [message.get("code") for message in sent] == [None, code]
    assert [each.code for each in caplog.records] == ["worker_lost"] * (code == 1011)
