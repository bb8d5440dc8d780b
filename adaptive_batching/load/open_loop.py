"""Traffic that no answer holds up: Poisson, or at instants that were recorded."""

import asyncio
from collections.abc import Iterator
from random import Random
from time import perf_counter

from adaptive_batching.load.connection import ClientConnection, Response
from adaptive_batching.load.plans import JSON, Answer, End, OpenLoop
from adaptive_batching.load.requests import Requests


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
            sent.append(group.create_task(_insist(pool, plan, number, start, scheduled)))
    pool.close()
    return [answer for task in sent for answer in task.result()]


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


async def _insist(
    pool: "_Pool", plan: OpenLoop, number: int, start: float, scheduled: float
) -> list[Answer]:
    """Send a request until it is answered, as often as the plan allows."""
    random = Random(f"{plan.seed} {number}")  # noqa: S311  not a secret
    item = number % len(plan.bodies)
    answers = [await _send(pool, item, start, scheduled, 0)]
    while answers[-1].end is not End.ANSWERED and len(answers) <= plan.retries:
        wait = plan.backoff * 2 ** (len(answers) - 1) * random.uniform(0.5, 1.5)
        scheduled = perf_counter() - start + wait
        await asyncio.sleep(wait)
        answers.append(await _send(pool, item, start, scheduled, len(answers)))
    return answers


async def _send(
    pool: "_Pool", item: int, start: float, scheduled: float, sent_before: int
) -> Answer:
    due = start + scheduled
    lag = perf_counter() - due
    try:
        status, body = await pool.post(item)
    except (OSError, TimeoutError) as error:
        status, body = 0, repr(error).encode()
    return Answer(item, scheduled, lag, perf_counter() - due, status, body, sent_before)


class _Pool:
    """The connections; opened when none is idle, up to their number."""

    def __init__(self, plan: OpenLoop) -> None:
        self._plan = plan
        self._requests = Requests(plan.url, plan.bodies, JSON)
        self._permits = asyncio.Semaphore(plan.connections)
        self._idle: list[ClientConnection] = []

    async def post(self, item: int) -> Response:
        async with asyncio.timeout(self._plan.patience), self._permits:
            connection = await self._connection()
            try:
                return await connection.post(self._requests.post(item))
            finally:
                if connection.usable:
                    self._idle.append(connection)
                else:
                    connection.close()

    async def _connection(self) -> ClientConnection:
        while self._idle:
            connection = self._idle.pop()  # the one used last: the server closes it last
            if connection.usable:
                return connection
        return await ClientConnection.open(self._plan.url)

    def close(self) -> None:
        for connection in self._idle:
            connection.close()
