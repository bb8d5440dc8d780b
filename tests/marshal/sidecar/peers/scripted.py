"""Servers that do with a connection what no HTTP library would."""

import asyncio
import json
import socket
import struct
from contextlib import asynccontextmanager, contextmanager, suppress
from urllib.parse import urlsplit

from tests.stream_server import listening

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


class Exchange:
    """One request on a connection, and what can be done about it.

    Attributes:
        number: Of the request, over all connections, from 0.
        body: JSON of the request.
    """

    def __init__(self, number, head, body, writer):
        self.number = number
        self.head = head
        self.body = body
        self._writer = writer

    async def write(self, data):
        self._writer.write(data)
        await self._writer.drain()

    async def predict(self):
        """Answer as a model server should."""
        instances = json.loads(self.body)["instances"]
        body = json.dumps({"predictions": [2 * each for each in instances]}).encode()
        await self.write(OK + b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def hang_up(self):
        """With FIN."""
        self._writer.close()

    def reset(self):
        """With RST."""
        linger = struct.pack("ii", 1, 0)  # for no time
        sock = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self._writer.transport.abort()

    async def for_ever(self):
        await asyncio.get_running_loop().create_future()


class Scripted:
    """A server that follows a script for each request.

    Attributes:
        script: Async function of an Exchange.
        exchanges: That there were.
    """

    def __init__(self, script):
        self.script = script
        self.exchanges = []

    @property
    def port(self):
        return urlsplit(self.url).port

    @property
    def bodies(self):
        return [json.loads(each.body)["instances"] for each in self.exchanges]

    async def serve(self, reader, writer):
        """Answer the requests of a connection."""
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                lengths = [
                    int(line.split(b":")[1])
                    for line in head.lower().split(b"\r\n")
                    if line.startswith(b"content-length:")
                ]
                length = sum(lengths)
                body = await reader.readexactly(length)
                exchange = Exchange(len(self.exchanges), head, body, writer)
                self.exchanges.append(exchange)
                await self.script(exchange)
        writer.close()


@asynccontextmanager
async def scripted(script, **options):
    """A server that follows a script, at `url`, or at the `path` of a Unix socket.

    Args:
        script: Async function of an Exchange.
        options: Of `listening`; `sock` for a port that was taken before.
    """
    server = Scripted(script)
    async with listening(server.serve, **options) as server.url:
        yield server


@contextmanager
def refusing():
    """A socket of a port that refuses connections until a server is given it."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield reserved


def url_of(sock):
    """Where it is."""
    return f"http://127.0.0.1:{sock.getsockname()[1]}"


async def predict(exchange):
    """The script of a server that is well."""
    await exchange.predict()
