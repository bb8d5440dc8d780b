"""One front as the service sees it: a process, its link, and what its clients wait for."""

import asyncio
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress

from adaptive_batching.errors import WorkerStartError
from adaptive_batching.marshal.fronts.link import Link
from adaptive_batching.marshal.fronts.messages import (
    Begin,
    Counts,
    FromFront,
    Listening,
    Withdraw,
)
from adaptive_batching.marshal.fronts.requests import Requests


class FrontProcess:
    """Started once; what its clients wait for is withdrawn when it ends.

    Args:
        requests: Answers what it asks.
        on_counts: Told how many answers it has given, and connections dropped.
    """

    def __init__(self, requests: Requests, on_counts: Callable[[Counts], None]) -> None:
        self.link = Link(FromFront, self._heard, self._lost)
        self._requests = requests
        self._on_counts = on_counts
        self._asked: dict[int, asyncio.Task[None]] = {}
        loop = asyncio.get_running_loop()
        self._listening: asyncio.Future[Listening] = loop.create_future()
        self._process: asyncio.subprocess.Process | None = None
        self.gone = asyncio.Event()
        """Set once its link is lost."""

    @property
    def pid(self) -> int | None:
        """Its process id, once it has one."""
        return self._process.pid if self._process else None

    async def start(self, begin: Begin) -> str:
        """Start it; returns its URL once it listens.

        Raises:
            WorkerStartError: It can't listen there, or ended before it could.
        """
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-P", "-m", "adaptive_batching.marshal.fronts.front", str(theirs.fileno())),
                *(["uvloop"] if type(loop).__module__.startswith("uvloop") else []),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,  # who reads ours waits for its end
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is for the service
            )
        await loop.create_unix_connection(lambda: self.link, sock=ours)
        self.link.send(begin)
        listening = await self._listening
        if listening.problem:
            raise WorkerStartError(f"a marshal could not be started: {listening.problem}")
        return listening.url

    async def ended(self) -> None:
        """Wait until it has."""
        if self._process is not None:
            await self._process.wait()

    def kill(self) -> None:
        """End it now."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGKILL)
        self.link.close()

    def _heard(self, message: FromFront) -> None:
        match message:
            case Listening():
                self._listening.set_result(message)
            case Counts():
                self._on_counts(message)
            case Withdraw(number):
                asked = self._asked.get(number)
                if asked is not None:
                    asked.cancel()
            case _:
                task = asyncio.get_running_loop().create_task(
                    self._requests.answer(message, self.link)
                )
                self._asked[message.number] = task
                task.add_done_callback(lambda _: self._asked.pop(message.number))

    def _lost(self) -> None:
        for task in list(self._asked.values()):
            task.cancel()
        if not self._listening.done():
            self._listening.set_result(Listening("", "the process ended at once"))
        self.gone.set()
