"""Clients that send again when answered."""

import asyncio
from collections.abc import Iterator
from itertools import count, repeat
from time import perf_counter

from adaptive_batching.load.connection import Connection, post_request
from adaptive_batching.load.plans import ClosedLoop, Throughput


async def closed_loop(plan: ClosedLoop) -> Throughput:
    """Keep every connection busy for the duration."""
    begin = perf_counter()
    requests = _requests(plan)
    until = begin + plan.duration
    clients = [_Client(plan.url, requests, until) for _ in range(plan.connections)]
    async with asyncio.TaskGroup() as group:
        for client in clients:
            group.create_task(client.run())
    duration = perf_counter() - begin
    latencies = sorted(latency for client in clients for latency in client.latencies)
    return Throughput(
        tool="own",
        requests=len(latencies),
        failed=sum(client.failed for client in clients),
        duration=duration,
        p50=_quantile(latencies, 0.5),
        p99=_quantile(latencies, 0.99),
    )


class _Client:
    """One client and its connection; a new one for each that breaks."""

    def __init__(self, url: str, requests: Iterator[bytes], until: float) -> None:
        self.latencies: list[float] = []
        self.failed = 0
        self._url = url
        self._requests = requests
        self._until = until

    async def run(self) -> None:
        while perf_counter() < self._until:
            try:
                await self._use(await Connection.open(self._url))
            except OSError:
                self.failed += 1
                await asyncio.sleep(0.01)  # a server that is gone is not to be hammered

    async def _use(self, connection: Connection) -> None:
        sent = perf_counter()
        while connection.usable and sent < self._until:
            response = await connection.post(next(self._requests))
            answered = perf_counter()
            self.latencies.append(answered - sent)
            self.failed += not 200 <= response.status < 300
            sent = answered
        connection.close()


def _requests(plan: ClosedLoop) -> Iterator[bytes]:
    """The bytes of one request after the other."""
    if not plan.named:
        return repeat(post_request(plan.url, plan.body, plan.headers))
    names = ({"X-Request-Id": str(number)} for number in count())
    return (post_request(plan.url, plan.body, {**plan.headers, **name}) for name in names)


def _quantile(ordered: list[float], share: float) -> float:
    return ordered[int(share * (len(ordered) - 1))] if ordered else 0.0
