"""Clients that send again when answered."""

import asyncio
from time import perf_counter

from adaptive_batching.load.connection import Connection, post_request
from adaptive_batching.load.plans import ClosedLoop, Throughput


async def closed_loop(plan: ClosedLoop) -> Throughput:
    """Keep every connection busy for the duration."""
    begin = perf_counter()
    clients = [_Client(plan, begin + plan.duration) for _ in range(plan.connections)]
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

    def __init__(self, plan: ClosedLoop, until: float) -> None:
        self.latencies: list[float] = []
        self.failed = 0
        self._plan = plan
        self._until = until

    async def run(self) -> None:
        while perf_counter() < self._until:
            try:
                await self._use(await Connection.open(self._plan.url))
            except OSError:
                self.failed += 1
                await asyncio.sleep(0.01)  # a server that is gone is not to be hammered

    async def _use(self, connection: Connection) -> None:
        request = post_request(self._plan.url, self._plan.body, self._plan.headers)
        sent = perf_counter()
        while connection.usable and sent < self._until:
            response = await connection.post(request)
            answered = perf_counter()
            self.latencies.append(answered - sent)
            self.failed += not 200 <= response.status < 300
            sent = answered
        connection.close()


def _quantile(ordered: list[float], share: float) -> float:
    return ordered[int(share * (len(ordered) - 1))] if ordered else 0.0
