"""No client gets another's answer, whatever clients and a server do to their connections.

`OWN_ANSWERS=100000 pytest tests/abuse/test_own_answers.py` sends so many requests.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from contextlib import asynccontextmanager, suppress
from itertools import count
from random import Random

import pytest
from yarl import URL

from tests.stream_server import listening

REQUESTS = int(os.environ.get("OWN_ANSWERS", "300"))
CLIENTS = 16 + REQUESTS // 500
MODELS = 20  # a batch that was answered for others sets its model apart for a while
FIRST = 0.2  # seconds to the first answer on a connection, and for as long it rests after each
LATER = 0.005  # seconds to others, so that the true answer always comes while it rests
READ = {"POST", "PUT"}  # of other methods no body is read


def answer(said, status=b"200 OK"):
    body = json.dumps(said).encode()
    head = b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % (status, len(body)) + body


class Server:
    """Says in each answer to what it is one, and if it is one too many, how it came to be."""

    def __init__(self, random):
        self.random = random

    async def serve(self, reader, writer):
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            wait = FIRST
            while await self.exchange(reader, writer, wait):
                wait = self.random.uniform(0, LATER)
        writer.close()

    async def exchange(self, reader, writer, wait):
        """Answer one request; returns whether another may follow."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, target, _ = head.split(" ", 2)
        act = self.random.choices(
            ["well", "twice", "late", "early", "interim", "hang up", "half"],
            [30, 2, 4, 1, 1, 1, 1],
        )[0]
        if act == "early" and method in READ:
            writer.write(answer({"early": target}, b"413 Too Large"))
            return False
        body = await read_body(reader, head) if method in READ else b""
        await asyncio.sleep(wait)
        if act == "interim":
            writer.write(b"HTTP/1.1 102 Processing\r\n\r\n")
        if act != "hang up":
            said = answer(echo(target, body, None))
            writer.write(said[: len(said) // 2] if act == "half" else said)
        if act == "twice":
            writer.write(answer(echo(target, body, "twice")))
        elif act == "late":
            late, after = answer(echo(target, body, "late")), self.random.uniform(0, 2 * FIRST)
            asyncio.get_running_loop().call_later(after, writer.write, late)
        return act not in {"hang up", "half"}


async def read_body(reader, head):
    fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:-2])
    if "transfer-encoding" not in fields:
        return await reader.readexactly(int(fields.get("content-length", 0)))
    body = b""
    while size := int(await reader.readline(), 16):
        body += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return body


def echo(target, body, kind):
    if ":predict" in target:
        return {"predictions": [[each, kind] for each in json.loads(body)["instances"]]}
    return {"predictions": [[target.partition("v=")[2], kind]]}


class Asked:
    """A request with values that no other has; `own` is what its answer must hold."""

    def __init__(self, random, number):
        self.method = "POST"
        model = f"/v1/models/m{random.randrange(MODELS)}"
        kind = random.choices(
            ["batch", "get", "head", "smuggle", "chunks", "delete"], [8, 2] + [1] * 4
        )[0]
        if kind == "batch":
            self.own = [f"{number}-{each}" for each in range(random.randint(1, 3))]
            self.bytes = post(f"{model}:predict", self.own)
            return
        self.own = [str(number)]
        target = f"{model}?v={number}"
        self.method = {"get": "GET", "head": "HEAD", "chunks": "POST", "delete": "DELETE"}.get(
            kind, "GET"
        )
        line = f"{self.method} {target} HTTP/1.1\r\nHost: h\r\n"
        if kind in {"smuggle", "delete"}:
            inner = post(f"{model}:predict", ["smuggled"])
            self.bytes = f"{line}Content-Length: {len(inner)}\r\n\r\n".encode() + inner
        elif kind == "chunks":
            self.bytes = f"{line}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n".encode()
        else:
            self.bytes = f"{line}\r\n".encode()


def post(target, instances):
    body = json.dumps({"instances": instances})
    return (
        f"POST {target} HTTP/1.1\r\nHost: h\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    )


class Clients:
    """Ask in pieces, several at once, and hang up anywhere; what they get is compared."""

    def __init__(self, random, url):
        self.random = random
        self.url = URL(url)
        self.numbers = count()
        self.got = Counter()
        self.wrong = []

    async def ask(self):
        """Open connections until enough was asked."""
        while (first := next(self.numbers)) < REQUESTS:
            several = [Asked(self.random, first)]
            while self.random.random() < 0.5:
                several.append(Asked(self.random, next(self.numbers)))
            reader, writer = await asyncio.open_connection(self.url.host, self.url.port)
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                if await self.write(writer, b"".join(each.bytes for each in several)):
                    for each in several:
                        await self.read(reader, each)
            writer.transport.abort()

    async def write(self, writer, data):
        """Write in pieces; returns whether the client waits for the answers."""
        leaves = self.random.random() < 0.1
        end = self.random.randrange(len(data) + 1) if leaves else len(data)
        cuts = sorted(
            self.random.randrange(end + 1) for _ in range(self.random.choice([0, 0, 1, 3]))
        )
        for begin, to in zip([0, *cuts], [*cuts, end], strict=True):
            writer.write(data[begin:to])
            await asyncio.sleep(0)
        return not leaves

    async def read(self, reader, asked):
        async with asyncio.timeout(60):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            body = b"" if asked.method == "HEAD" else await read_body(reader, head)
        status = head.split()[1]
        self.got[status] += 1
        if status == "200" and body:
            values, kinds = zip(*json.loads(body)["predictions"], strict=True)
            if [*values] != asked.own:
                self.wrong.append((kinds[0], asked.own, values))


@asynccontextmanager
async def sidecar(*arguments):
    command = [sys.executable, "-m", "adaptive_batching", "sidecar", "--protocol=tensorflow"]
    process = await asyncio.create_subprocess_exec(
        *command, "--port=0", *arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(60):
            line = await process.stdout.readline()
        yield line.split()[0].decode()
    finally:
        process.kill()
        await process.wait()


@pytest.mark.parametrize("loop", ["--no-uvloop", "--uvloop"])
async def test_f1_each_client_gets_its_own_answer(loop):
    """But for an extra one that comes while the next request is under way: it goes to that client,
    and no true answer ever goes to another.
    """
    server = Server(Random(1))
    async with listening(server.serve) as upstream:
        options = [f"--upstream={upstream}", f"--concurrency={CLIENTS // 4}", loop]
        async with sidecar(*options) as url:
            clients = Clients(Random(2), url)
            await asyncio.gather(*(clients.ask() for _ in range(CLIENTS)))
    assert [each for each in clients.wrong if each[0] != "late"] == []
    assert clients.got["200"] > REQUESTS / 3, clients.got
