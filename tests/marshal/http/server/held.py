"""A service that answers when its test lets it, and connections to it that stay open."""

import asyncio
import re
from contextlib import asynccontextmanager

from yarl import URL

from adaptive_batching.marshal.service.service import Service


class Held:
    """A service that gives back what it gets, once its gate is open."""

    def __init__(self):
        self.gate = asyncio.Event()
        self.service = Service()
        self.service.endpoint("/echo", max_body=1000, policy="greedy")(self.echo)
        self.service.endpoint("/raw", codec="raw")(self.raw)
        self.service.endpoint("/large", codec="raw")(self.large)
        self.service.endpoint("/image", codec="raw", policy="greedy")(self.image)

    async def echo(self, items: list) -> list:
        await self.gate.wait()
        if "fail" in items:
            raise RuntimeError("as it was asked to")
        return items

    async def raw(self, items: list[bytes]) -> list[bytes]:
        return items

    async def image(self, items: list[bytes]) -> list[bytes]:
        await self.gate.wait()
        return items

    async def large(self, items: list[bytes]) -> list[bytes]:
        return [item * 2**23 for item in items]


class Streams:
    """A connection that stays open."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    def post(self, path, body, *headers):
        lines = [b"POST %b HTTP/1.1" % path, b"Host: us", *headers]
        lines += [b"Content-Length: %d" % len(body), b"", body]
        self.writer.write(b"\r\n".join(lines))

    async def answer(self):
        async with asyncio.timeout(10):
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = int(re.search(rb"Content-Length: (\d+)", head)[1])
            return head, await self.reader.readexactly(length)


@asynccontextmanager
async def connected(client):
    url = URL(client.running.url)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    try:
        yield Streams(reader, writer)
    finally:
        writer.transport.abort()
