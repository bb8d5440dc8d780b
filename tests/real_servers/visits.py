"""Clients: what they ask goes through the sidecar, and then to the server directly."""

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass
from random import Random

import aiohttp

from tests.real_servers.traffic import BINARY, Asked

AT_A_TIME = 48
POISONED, ASIDE, LEAVING = 0.05, 0.15, 0.05


@dataclass(frozen=True)
class Told:
    """An answer."""

    status: int
    body: bytes
    content_type: str
    header_length: str | None
    batch: str | None

    def whole(self):
        """What must be the same to the byte."""
        return self.status, self.body, self.content_type, self.header_length

    def meaning(self, asked):
        """What must be the same although the JSON around it may be spaced otherwise."""
        length = len(self.body) if self.header_length is None else int(self.header_length)
        text = json.loads(self.body[:length], parse_int=str, parse_float=str, parse_constant=str)
        if isinstance(text, dict) and b'"id"' not in asked.body:
            text.pop("id", None)  # some servers make one up, another each time
        return self.status, text, self.body[length:], self.content_type


@dataclass(frozen=True)
class Visit:
    """A client's request: `fine`, `poisoned` or `aside`; one who leaves does not wait for more."""

    asked: Asked
    kind: str
    leaves: float | None


def plan(traffic, count, seed=0):
    """Visits of all kinds, mixed."""
    random = Random(seed)
    return [_visit(traffic, random) for _ in range(count)]


def _visit(traffic, random):
    leaves = random.uniform(0, 0.02) if random.random() < LEAVING else None
    dice = random.random()
    if dice < POISONED:
        return Visit(traffic.poisoned(random), "poisoned", leaves)
    if dice < POISONED + ASIDE:
        return Visit(random.choice(traffic.aside), "aside", leaves)
    return Visit(traffic.fine(random), "fine", leaves)


async def tell(url, visits, at_a_time=AT_A_TIME):
    """The answers, in order; None for those who had left before."""
    places = asyncio.Semaphore(at_a_time)
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def one(visit):
            async with places:
                with suppress(TimeoutError):
                    async with asyncio.timeout(visit.leaves):
                        return await _ask(session, url, visit.asked)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(visit)) for visit in visits]
    return [task.result() for task in tasks]


async def _ask(session, url, asked):
    async with session.request(
        asked.method, f"{url}{asked.path}", data=asked.body or None, headers=asked.headers
    ) as response:
        headers = response.headers
        return Told(
            response.status,
            await response.read(),
            headers.get("Content-Type", ""),
            headers.get(BINARY),
            headers.get("X-Batch-Id"),
        )
