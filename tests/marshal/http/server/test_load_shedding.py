"""In overload a refusal costs next to nothing: what is refused has not been looked at."""

import asyncio
import json
import re

from yarl import URL

from adaptive_batching.core import JobOutcome
from adaptive_batching.marshal.service.service import Service
from adaptive_batching.wire.error_reply import MESSAGES
from tests.marshal.client import client_of, until

_SLOW = 0.4  # seconds of a batch: much for any machine
_HASTY = f"\r\nX-Request-Timeout-Ms: {900 * _SLOW:.0f}"  # no time even for a batch alone


def slow_service(gate):
    """One item at a time, which is answered when the gate is open."""
    service = Service()

    @service.endpoint("/", max_batch_size=1, max_latency=60.0)
    async def handler(items):
        await asyncio.sleep(_SLOW)
        await gate.wait()
        return items

    return service


class Visitor:
    """A connection that stays open."""

    def __init__(self, streams):
        self._reader, self._writer = streams

    @classmethod
    async def of(cls, client):
        url = URL(client.running.url)
        return cls(await asyncio.open_connection(url.host, url.port))

    def send(self, body, name, more=""):
        head = f"POST / HTTP/1.1\r\nHost: us\r\nX-Request-Id: {name}\r\nContent-Length: {len(body)}"
        self._writer.write(f"{head}{more}\r\n\r\n".encode() + body)

    async def answer(self):
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(re.search(rb"Content-Length: (\d+)", head)[1])
        return head, json.loads(await self._reader.readexactly(length))

    async def ask(self, body, name="x", more=""):
        self.send(body, name, more)
        return await self.answer()

    def close(self):
        self._writer.close()


async def test_who_is_refused_is_not_looked_at():
    """Even nonsense is told to come again; with time enough its mistake is told."""
    gate = asyncio.Event()
    gate.set()
    async with client_of(slow_service(gate)) as client:
        first, second, third = [await Visitor.of(client) for _ in range(3)]
        for number in range(6):  # until predictions are trusted
            assert (await first.ask(b"%d" % number))[1] == number
        status, told = await second.ask(b"nonsense")
        assert (status.split()[1], told["error"]) == (b"400", "malformed")

        gate.clear()
        first.send(b"1", "a")
        await until(lambda: client.stats("/").running)
        seen, told = await second.ask(b"2", "b", _HASTY)
        refused = {"error": "overloaded", "message": MESSAGES["overloaded"]}
        assert (seen.split()[1], told) == (b"503", {**refused, "request_id": "b"})
        unseen, told = await third.ask(b"nonsense", "c", _HASTY)
        assert (unseen.split()[1], told) == (b"503", {**refused, "request_id": "c"})
        names = [re.findall(rb"\r\n([\w-]+):", head) for head in (seen, unseen)]
        assert {b"Retry-After", b"X-Request-Id", b"Content-Type"} <= set(names[0]) & set(names[1])
        gate.set()
        assert (await first.answer())[1] == 1

        assert (await third.ask(b"3"))[1] == 3
        assert client.running.endpoints["/"].responses == {200: 8, 400: 1, 503: 2}
        assert client.stats("/").requests[JobOutcome.SHED] == 2
        for visitor in (first, second, third):
            visitor.close()


async def test_a_call_that_no_batch_answered_teaches_no_delay():
    """How long ago the last batch ended has nothing to do with how long answers take to leave."""
    service, gate = Service(), asyncio.Event()

    @service.endpoint("/", max_latency=0.05)
    async def late(items):
        await gate.wait()
        return items

    async with client_of(service) as client:
        assert (await client.post("/", 1)).status == 504
        gate.set()
        assert client.running._router._delay.allowance(1.0) < 0.25
