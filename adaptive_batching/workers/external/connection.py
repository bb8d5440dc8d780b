"""Our end of the connection of a worker that we did not start: a batch, its results, a batch, …"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from adaptive_batching.errors import HandlerError, WorkerLost, WorkerTimeout
from adaptive_batching.units import format_duration
from adaptive_batching.wire import worker_messages as messages
from adaptive_batching.wire.frames import MAX_CHATTER, FrameDecoder, FrameTooLong
from adaptive_batching.wire.frames import encode as encode_frame
from adaptive_batching.wire.worker_messages import (
    MAX_ITEMS,
    Bye,
    Failure,
    FromWorker,
    Hello,
    Idle,
    MalformedMessage,
    Refused,
    Results,
)
from adaptive_batching.workers.external.named_socket import Peer, peer_of
from adaptive_batching.workers.handler.results import CallRaised

HELLO_TIMEOUT = 10.0  # seconds; a worker that connects has loaded its model before


@dataclass(frozen=True, slots=True)
class WorkerTerms:
    """What every worker of a socket has to keep to.

    Attributes:
        timeout: Seconds that a batch may take.
        max_frame: Bytes of a batch, and of its results.
        hello_timeout: Seconds from the connection to the first empty frame.
    """

    timeout: float
    max_frame: int
    hello_timeout: float = HELLO_TIMEOUT


class WorkerConnection(asyncio.Protocol):
    """One worker that came, until it goes or is hung up on.

    Args:
        terms: What it has to keep to.
        on_come: Asked whether this worker may stay, when it is connected and when it is idle for
            the first time; says why not, or nothing.
        on_leaving: Told that it takes no more batches.
        on_gone: Told that the connection has ended, and why if that was our doing.

    Attributes:
        name: What it calls itself; empty until it has said so, or if it doesn't.
        peer: Its process and user, as the kernel knows them.
        alive: Whether it can take batches, or holds one.
        busy: Whether it holds one.
        gone: Whether the connection has ended.
    """

    def __init__(
        self,
        terms: WorkerTerms,
        on_come: Callable[["WorkerConnection"], str | None],
        on_leaving: Callable[[], None],
        on_gone: Callable[["WorkerConnection", str | None], None],
    ) -> None:
        self.name = ""
        self.peer = Peer(0, -1)
        self.alive = False
        self.busy = False
        self.gone = False
        self._terms = terms
        self._on_come = on_come
        self._on_leaving = on_leaving
        self._on_gone = on_gone
        self._loop = asyncio.get_running_loop()
        self._decoder = FrameDecoder(MAX_CHATTER)
        self._hello: Hello | None = None
        self._transport: asyncio.Transport
        self._patience: asyncio.TimerHandle
        self._leaving = False
        self._jobs: list[int] = []  # what it has been asked and has not answered
        self._answer: asyncio.Future[Sequence[Any]] | None = None
        self._next_job = 0

    def __repr__(self) -> str:
        name = f" {self.name!r}" if self.name else ""
        return f"external worker{name} (pid {self.peer.pid})"

    async def run(self, items: list[Any]) -> Sequence[Any]:
        """Run one batch, in parts if the worker wants fewer items at a time.

        `CallRaised` stands in the places of the items over which the handler raised.

        Raises:
            WorkerLost: The worker has gone, or did not keep to the protocol.
            WorkerTimeout: It took longer than the batch timeout and was hung up on.
        """
        most = (self._hello and self._hello.max_batch_size) or MAX_ITEMS
        self.busy = True
        try:
            async with asyncio.timeout(self._terms.timeout):
                if len(items) <= most:
                    return await self._ask(items)
                parts = [items[start : start + most] for start in range(0, len(items), most)]
                return [result for part in parts for result in await self._ask(part)]
        except TimeoutError:
            limit = format_duration(self._terms.timeout)
            reason = f"did not answer a batch of {len(items)} in {limit}"
            self.drop(reason)
            raise WorkerTimeout(f"{self} {reason}; it was hung up on") from None
        except asyncio.CancelledError:
            self.drop("held a batch that was cancelled")  # its late answer has no call to go to
            raise
        finally:
            self.busy = False
            if self._leaving:
                self.hang_up()

    def drop(self, reason: str) -> None:
        """Hang up on it, tell it and the log why, and fail the batch that it holds."""
        if self.gone:
            return
        if not self._transport.is_closing():
            self._transport.writelines(encode_frame([messages.encode(Refused(reason))]))
        self._end(reason)

    def hang_up(self) -> None:
        """Close the connection of a worker that is not needed, or wants to go."""
        self._end(None)

    # ------------------------------------------------------------------------ called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A worker has connected."""
        self._transport = cast("asyncio.Transport", transport)
        self.peer = peer_of(transport.get_extra_info("socket"))
        limit = format_duration(self._terms.hello_timeout)
        late = f"sent no hello and empty frame within {limit}"
        self._patience = self._loop.call_later(self._terms.hello_timeout, self.drop, late)
        self._welcome()

    def data_received(self, data: bytes) -> None:
        """Some bytes have come."""
        try:
            for payload in self._decoder.feed(data):
                if not self.gone:
                    self._hear(messages.decode_from_worker(payload))
        except (MalformedMessage, FrameTooLong) as error:
            self.drop(f"broke the protocol: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        """The other end has closed, or we have."""
        self._end(None)

    # ------------------------------------------------------------------------------ what it says

    def _hear(self, message: FromWorker) -> None:
        if self._hello is None:
            if not isinstance(message, Hello):
                raise MalformedMessage(f"expected a hello first, got {_kind(message)}")
            messages.check_hello(message)
            self._hello = message
            self.name = message.name
        elif isinstance(message, Idle):
            self._come()
        elif isinstance(message, Bye):
            self._leave()
        elif isinstance(message, Results | Failure) and self._answer is not None:
            self._answered(message, self._answer)
        else:
            raise MalformedMessage(f"got {_kind(message)} that is not waited for")

    def _come(self) -> None:
        if self.alive or self._leaving:
            return  # it said so already; an empty frame that crosses a batch does no harm either
        self._patience.cancel()
        self.alive = True
        self._welcome()

    def _leave(self) -> None:
        """Let it go when it has done what was meant for it, which may not have been sent yet."""
        self._leaving = True
        if not self.busy:
            self.alive = False
            self._on_leaving()
            self._loop.call_soon(self._leave_if_idle)  # behind a batch that has left for it

    def _leave_if_idle(self) -> None:
        if not self.busy:
            self.hang_up()

    def _welcome(self) -> None:
        objection = self._on_come(self)
        if objection:
            self.drop(objection)

    def _answered(self, message: Results | Failure, answer: asyncio.Future[Sequence[Any]]) -> None:
        if isinstance(message, Failure):
            message = Results(raised=[(list(self._jobs), message.error)])
        results = messages.answers(message, self._jobs)
        in_calls = {job for jobs, _ in message.raised for job in jobs}
        if not answer.done():
            marked = zip(self._jobs, results, strict=True)
            answer.set_result([CallRaised(r) if job in in_calls else r for job, r in marked])
        self._answer = None
        self._decoder.max_length = MAX_CHATTER

    # ------------------------------------------------------------------------------ what it is told

    async def _ask(self, items: list[Any]) -> Sequence[Any]:
        first, self._next_job = self._next_job, self._next_job + len(items)
        payload, unfit = messages.encode_batch(first, items)
        if len(unfit) == len(items):
            return list(unfit.values())
        if len(payload) > self._terms.max_frame:
            return await self._ask_in_halves(items, len(payload))
        # Python 3.12 and 3.13.0 fail at `writelines` to what is being closed.
        if self.gone or self._transport.is_closing():
            raise WorkerLost(f"{self} had gone before it got its batch")
        pieces = encode_frame([payload], self._terms.max_frame)
        self._jobs = [job for job in range(first, self._next_job) if job not in unfit]
        answer: asyncio.Future[Sequence[Any]] = self._loop.create_future()
        self._answer = answer
        self._decoder.max_length = self._terms.max_frame
        self._transport.writelines(pieces)
        results = await answer
        if not unfit:
            return results
        by_job: dict[int, Any] = {**unfit, **dict(zip(self._jobs, results, strict=True))}
        return [by_job[job] for job in range(first, first + len(items))]

    async def _ask_in_halves(self, items: list[Any], length: int) -> Sequence[Any]:
        """Ask with less at a time than fits into no frame."""
        if len(items) == 1:
            most = self._terms.max_frame
            msg = f"an item can't be sent to the worker: max_frame={most} bytes, got {length}"
            return [HandlerError(msg)]
        half = len(items) // 2
        return [*await self._ask(items[:half]), *await self._ask(items[half:])]

    def _end(self, reason: str | None) -> None:
        if self.gone:
            return
        self.gone = True
        self.alive = False
        self._patience.cancel()
        if self._transport.get_write_buffer_size():
            self._transport.abort()  # it does not read what it is told
        else:
            self._transport.close()
        if self._answer is not None and not self._answer.done():
            fate = reason or "closed its connection"
            held = f"while it held a batch of {len(self._jobs)}"
            self._answer.set_exception(WorkerLost(f"{self} {fate} {held}"))
        self._on_gone(self, reason)


def _kind(message: FromWorker) -> str:
    return f"a message {type(message).__name__.lower()}"
