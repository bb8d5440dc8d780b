"""A process that speaks HTTP for a service: `python -m adaptive_batching.marshal.fronts.front FD`.

It listens where its siblings do (SO_REUSEPORT), so that the kernel shares out the connections, and
leaves to the service everything but HTTP. When the service has gone, clients are told to go
elsewhere, and it ends.
"""

import asyncio
import contextlib
import logging
import signal
import socket
import sys
from collections import Counter
from collections.abc import Mapping

from aiohttp import web

from adaptive_batching.marshal import pages
from adaptive_batching.marshal.fronts.link import Link
from adaptive_batching.marshal.fronts.messages import (
    Begin,
    Counts,
    Drain,
    Leave,
    Listening,
    Reply,
    Retuned,
    ToFront,
)
from adaptive_batching.marshal.fronts.remote import RemoteService
from adaptive_batching.marshal.lane import Lane
from adaptive_batching.marshal.listener import Listener
from adaptive_batching.marshal.listening import ListenError, shared_socket
from adaptive_batching.marshal.marshal import Marshal
from adaptive_batching.marshal.rejections import as_response

_COUNTED_EVERY = 0.5  # seconds
_LAST_ANSWERS = 3.0  # seconds to tell clients of a service that has gone


class Front:
    """Lives as long as its link; see `run`."""

    def __init__(self) -> None:
        self.link = Link(ToFront, self._heard, self._lost)
        self._service = RemoteService(self.link)
        self._marshal: Marshal | None = None
        self._lanes: Mapping[str, Lane] = {}
        self._said: dict[str, Counter[int]] = {}
        self._said_dropped = 0
        self._begin: asyncio.Future[Begin] = asyncio.get_running_loop().create_future()
        self._leaving: asyncio.Future[float | None] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Listen until told to leave, or until the service has gone."""
        begin = await self._begin
        lanes = self._lanes = self._service.lanes(begin.lanes)
        self._marshal = Marshal(
            lanes,
            {"/healthz": pages.healthy, "/readyz": self._readiness},
            max_in_flight=begin.max_in_flight,
            body_timeout=begin.body_timeout,
        )
        listener = Listener(self._marshal)
        try:
            bound = shared_socket(begin.host, begin.port)
            url = await listener.open(begin.host, begin.port, bound)
        except ListenError as error:
            self.link.send(Listening("", str(error)))
            self.link.close()
            return
        self.link.send(Listening(url))
        counts = {path: lane.responses for path, lane in lanes.items()}
        counts["other"] = self._marshal.unrouted
        counting = asyncio.create_task(self._keep_counting(counts, listener))
        patience = await self._leaving
        self._marshal.draining = True
        await listener.shut()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await listener.calm()
        await listener.aclose()
        counting.cancel()
        self._count(counts, listener)
        self.link.close()

    async def _readiness(self, request: web.BaseRequest) -> web.Response:
        deep = request.query.get("deep") == "1"
        return as_response(await self._service.readiness(deep=deep))

    def _heard(self, message: ToFront) -> None:
        match message:
            case Reply():
                self._service.told(message)
            case Begin():
                self._begin.set_result(message)
            case Retuned(lanes):
                for each in lanes:
                    lane = self._lanes[each.path]
                    lane.max_latency, lane.max_body = each.max_latency, each.max_body
            case Drain() if self._marshal is not None:
                self._marshal.draining = True
            case Leave():
                self._leave(None)

    def _lost(self) -> None:
        self._service.lost()
        if not self._begin.done():
            self._begin.cancel()
        self._leave(_LAST_ANSWERS)

    def _leave(self, patience: float | None) -> None:
        if not self._leaving.done():
            self._leaving.set_result(patience)

    async def _keep_counting(self, counts: dict[str, Counter[int]], listener: Listener) -> None:
        while True:
            await asyncio.sleep(_COUNTED_EVERY)
            self._count(counts, listener)

    def _count(self, counts: dict[str, Counter[int]], listener: Listener) -> None:
        """Say what has been answered, and who was dropped, since the last time."""
        fresh = {path: count - self._said.get(path, Counter()) for path, count in counts.items()}
        dropped = listener.dropped - self._said_dropped
        if dropped or any(fresh.values()):
            self._said = {path: count.copy() for path, count in counts.items()}
            self._said_dropped += dropped
            responses = {path: dict(count) for path, count in fresh.items() if count}
            self.link.send(Counts(responses, dropped))


async def main(fd: int) -> None:
    """Be a front at this end of a socket."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, lambda: None)  # the service says when
    front = Front()
    await loop.create_unix_connection(lambda: front.link, sock=socket.socket(fileno=fd))
    with contextlib.suppress(asyncio.CancelledError):
        await front.run()


if __name__ == "__main__":
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s")
    factory = None
    if sys.argv[2:] == ["uvloop"]:
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main(int(sys.argv[1])))
