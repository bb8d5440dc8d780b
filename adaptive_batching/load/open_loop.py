"""Traffic that no answer holds up: Poisson, or at instants that were recorded."""

import asyncio
from collections.abc import Iterator
from random import Random
from time import perf_counter

from adaptive_batching.load.connection import Connection, Response, post_request
from adaptive_batching.load.plans import Answer, OpenLoop


async def open_loop(plan: OpenLoop) -> list[Answer]:
    """Send every request at its instant and wait for the last answer."""
    schedule = list(instants(plan))
    pool = _Pool(plan)
    start = perf_counter()
    async with asyncio.TaskGroup() as group:
        sent = []
        for number, scheduled in enumerate(schedule):
            wait = start + scheduled - perf_counter()
            if wait > 0:
                await asyncio.sleep(wait)
            item = number % len(plan.bodies)
            sent.append(group.create_task(_send(pool, item, start, scheduled)))
    pool.close()
    return [task.result() for task in sent]


def instants(plan: OpenLoop) -> Iterator[float]:
    """When requests are sent (seconds from the beginning)."""
    yield from plan.instants
    random = Random(plan.seed)  # noqa: S311  not a secret
    begin = 0.0
    for rate, duration in [] if plan.instants else plan.phases:
        end = begin + duration
        now = begin + random.expovariate(rate)
        while now < end:
            yield now
            now += random.expovariate(rate)
        begin = end


async def _send(pool: "_Pool", item: int, start: float, scheduled: float) -> Answer:
    due = start + scheduled
    lag = perf_counter() - due
    try:
        status, body = await pool.post(item)
    except (OSError, TimeoutError) as error:
        status, body = 0, repr(error).encode()
    return Answer(item, scheduled, lag, perf_counter() - due, status, body)


class _Pool:
    """The connections; opened when none is idle, up to their number."""

    def __init__(self, plan: OpenLoop) -> None:
        self._plan = plan
        self._requests = [post_request(plan.url, body) for body in plan.bodies]
        self._permits = asyncio.Semaphore(plan.connections)
        self._idle: list[Connection] = []

    async def post(self, item: int) -> Response:
        async with asyncio.timeout(self._plan.patience), self._permits:
            connection = await self._connection()
            try:
                return await connection.post(self._requests[item])
            finally:
                if connection.usable:
                    self._idle.append(connection)
                else:
                    connection.close()

    async def _connection(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()  # the one used last: the server closes it last
            if connection.usable:
                return connection
        return await Connection.open(self._plan.url)

    def close(self) -> None:
        for connection in self._idle:
            connection.close()
