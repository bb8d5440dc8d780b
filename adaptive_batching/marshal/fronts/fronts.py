"""Several processes speak HTTP for a service: started, watched, told to leave."""

import asyncio
import logging
import random
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from math import ceil

from adaptive_batching.errors import BatchingError, UsageError
from adaptive_batching.marshal.fronts.messages import (
    Begin,
    Counts,
    Drain,
    LaneOfService,
    Leave,
    Retuned,
)
from adaptive_batching.marshal.fronts.process import FrontProcess
from adaptive_batching.marshal.fronts.requests import Requests
from adaptive_batching.marshal.lane import Lane
from adaptive_batching.marshal.listening import shared_socket
from adaptive_batching.marshal.rejections import PlainAnswer
from adaptive_batching.workers.backoff import Backoff

_log = logging.getLogger("adaptive_batching")


class Fronts:
    """A `Face` of several processes, in whose place others come if they die.

    Args:
        count: How many.
        lanes: The endpoints by path, which all of them share.
        readiness: What `/readyz` answers, if asked deeply or not.
        max_in_flight: Requests at a time, of all together.
        body_timeout: Seconds that a body may take to arrive.
    """

    def __init__(
        self,
        count: int,
        lanes: Mapping[str, Lane],
        readiness: Callable[[bool], Awaitable[PlainAnswer]],
        *,
        max_in_flight: int,
        body_timeout: float,
    ) -> None:
        self.unrouted: Counter[int] = Counter()
        self.dropped = 0
        self.draining = False
        self._count = count
        self._lanes = lanes
        self._max_in_flight = ceil(max_in_flight / count)
        self._body_timeout = body_timeout
        self._requests = Requests(list(lanes.values()), readiness)
        self._fronts: list[FrontProcess] = []
        self._keepers: list[asyncio.Task[None]] = []
        self._reserved: socket.socket | None = None
        self._leaving = False

    @property
    def held_bytes(self) -> int:
        """Bytes of the bodies that wait for their answers."""
        return self._requests.held_bytes

    @property
    def pids(self) -> list[int]:
        """The processes."""
        return [each.pid for each in self._fronts if each.pid is not None]

    async def open(
        self,
        host: str,
        port: int,
        bound: socket.socket | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> str:
        """Start all, and return the URL once they listen.

        Raises:
            ListenError: The port is taken, or the address is not ours.
            WorkerStartError: A process could not start.
            UsageError: A single socket can't be shared out, nor can what speaks TLS.
        """
        if tls is not None:
            raise UsageError("several marshals speak plain HTTP: expected one, or no --tls-cert")
        if bound is not None:
            raise UsageError("several marshals listen on a host and port, not on a socket")
        # Kept as long as we run: the port stays ours while one of them is started again.
        self._reserved = shared_socket(host, port)
        port = self._reserved.getsockname()[1]
        begin = self._begin(host, port)
        self._fronts = [self._made() for _ in range(self._count)]
        urls = await asyncio.gather(*(each.start(begin) for each in self._fronts))
        self._keepers = [
            asyncio.create_task(self._keep(number, host, port)) for number in range(self._count)
        ]
        return urls[0]

    def drain(self) -> None:
        """Tell clients to go elsewhere; what comes is answered all the same."""
        self.draining = True
        for each in self._fronts:
            each.link.send(Drain())

    def retuned(self) -> None:
        """The lanes have other limits."""
        for each in self._fronts:
            each.link.send(Retuned(self._described()))

    async def shut(self) -> None:
        """Accept no more connections; requests still come on those that are open."""
        self._leaving = True
        for each in self._fronts:
            each.link.send(Leave())

    async def calm(self) -> None:
        """Wait until all have answered what came, and ended."""
        await asyncio.gather(*(each.gone.wait() for each in self._fronts if each.pid))

    async def aclose(self) -> None:
        """End all now."""
        self._leaving = True
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        for each in self._fronts:
            each.kill()
        await asyncio.gather(*(each.ended() for each in self._fronts))
        if self._reserved is not None:
            self._reserved.close()

    def _made(self) -> FrontProcess:
        return FrontProcess(self._requests, self._counted)

    def _counted(self, counts: Counts) -> None:
        self.dropped += counts.dropped
        for path, responses in counts.responses.items():
            lane = self._lanes.get(path)
            (self.unrouted if lane is None else lane.responses).update(responses)

    async def _keep(self, number: int, host: str, port: int) -> None:
        """Put another one in the place of one that died."""
        backoff = Backoff(random.random)
        clock = asyncio.get_running_loop().time
        while True:
            born = clock()
            await self._fronts[number].gone.wait()
            self._fronts[number].kill()
            await self._fronts[number].ended()
            if self._leaving:
                return
            delay = backoff.after(clock() - born)
            _log.warning("marshal %d has died; another one is started in %.3g s", number, delay)
            await asyncio.sleep(delay)
            if self._leaving:
                return
            fresh = self._fronts[number] = self._made()
            with suppress(BatchingError):  # it has gone again, which is seen above
                await fresh.start(self._begin(host, port))
            if self.draining:
                fresh.link.send(Drain())
            if self._leaving:
                fresh.link.send(Leave())

    def _begin(self, host: str, port: int) -> Begin:
        limits = self._max_in_flight, self._body_timeout
        return Begin(host, port, *limits, self._described())

    def _described(self) -> list[LaneOfService]:
        return [_described(lane) for lane in self._lanes.values()]


def _described(lane: Lane) -> LaneOfService:
    contract = lane.negotiation.contract
    return LaneOfService(
        lane.path,
        [codec.value for codec in contract.item.codecs],
        [codec.value for codec in contract.result.codecs],
        contract.result.kind is str,
        lane.max_latency,
        lane.max_body,
    )
