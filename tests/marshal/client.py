"""What the tests of the service send, and how they wait."""

import asyncio
import json
from collections.abc import Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
from yarl import URL


@dataclass
class Answer:
    """One HTTP response."""

    status: int
    headers: Any
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        return self.json["error"]


class Client:
    """Sends JSON to a running service."""

    def __init__(self, running, session):
        self.running = running
        self.session = session

    async def send(self, method, path, **how):
        async with self.session.request(method, self.running.url + path, **how) as response:
            return Answer(response.status, response.headers, await response.read())

    async def post(self, path, value, **how):
        data = value if isinstance(value, bytes) else json.dumps(value)
        return await self.send("POST", path, data=data, **how)

    async def get(self, path):
        return await self.send("GET", path)

    def stats(self, path):
        return self.running.dispatchers[path].stats()

    async def raw(self, *pieces: bytes, end=b"", eof=False) -> bytes:
        """Send bytes on a connection of their own and read until `end`, or until it is closed."""
        url = URL(self.running.url)
        reader, writer = await asyncio.open_connection(url.host, url.port)
        try:
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            if eof:
                writer.write_eof()
            return await (reader.readuntil(end) if end else reader.read())
        finally:
            writer.close()


@asynccontextmanager
async def client_of(service, **how):
    """A service that runs, and a client of it."""
    connector = aiohttp.TCPConnector(limit=0)
    async with (
        service.running(**how) as running,
        aiohttp.ClientSession(connector=connector) as session,
    ):
        yield Client(running, session)


async def until(condition: Callable[[], object]) -> None:
    """Let the loop turn until something has become true."""
    while not condition():  # noqa: ASYNC110  what it waits for has no event
        await asyncio.sleep(0.001)
