"""One worker process: started, asked, watched, killed."""

import asyncio
import traceback
from collections.abc import Callable, Sequence
from math import inf
from typing import Any

from adaptive_batching.errors import (
    HandlerNotFound,
    WorkerLost,
    WorkerStartError,
    WorkerTimeout,
)
from adaptive_batching.units import format_duration
from adaptive_batching.wire.frames import FrameTooLong, Part
from adaptive_batching.workers.handler.device import DeviceLost
from adaptive_batching.workers.process.child_process import ChildProcess
from adaptive_batching.workers.process.frame_layout import MalformedFrame, returning
from adaptive_batching.workers.process.instructions import Instructions
from adaptive_batching.workers.process.rpc_channel import RpcChannel
from adaptive_batching.workers.process.serialization import (
    pack,
    pack_items,
    unpack_answer,
    unpack_beside,
)
from adaptive_batching.workers.process.shared_memory import End, SharedMemory, created

_LAST_BREATH = 0.1  # seconds from the end of its socket to its own; files are closed first
_GRACE = 2.0  # seconds to leave after the last batch; time enough to give a GPU back


class ProcessWorker:
    """A process that loads a handler and runs batches with it, one at a time.

    Args:
        number: Its place in the pool, for messages.
        instructions: What it runs and where.
        on_lost: Called once when it can take no more batches.
        shared_memory: Most bytes in which large arrays cross, half of it each way.
    """

    def __init__(
        self,
        number: int,
        instructions: Instructions,
        on_lost: Callable[[], None],
        shared_memory: int = 0,
    ) -> None:
        self.alive = False
        """Whether it can take batches, or holds one."""
        self._number = number
        self._instructions = instructions
        self._on_lost = on_lost
        self._child = ChildProcess(f"{instructions.handler.qualname}.{number}", self._hang_up)
        self._channel: RpcChannel | None = None
        self._shared_memory = shared_memory
        self._memory: SharedMemory | None = None
        self._holding = 0
        self._due = inf  # when the batch that it holds is given up, on the loop's clock
        self._watchdog: asyncio.TimerHandle | None = None
        self._given_up = ""  # why we killed it

    def __repr__(self) -> str:
        pid = "not started" if self.pid is None else f"pid {self.pid}"
        return f"worker {self._number} ({pid})"

    @property
    def pid(self) -> int | None:
        """The process id, once there is a process."""
        return self._child.pid

    @property
    def fate(self) -> str:
        """How it ended; see `PoolWorker.fate`."""
        return self._given_up or self._child.fate

    async def start(self, timeout: float) -> None:  # noqa: ASYNC109 - kills, not only cancels
        """Start it and wait until it is ready, at most `timeout` seconds.

        Raises:
            HandlerNotFound: It can't import its handler.
            WorkerStartError: It can't load it, died or took too long.
        """
        try:
            with created(self._shared_memory) as memory:
                async with asyncio.timeout(timeout):
                    self._channel = await self._spawn(memory)
                    unpack_answer(await self._channel.ask(pack(self._instructions)))
        except BaseException as error:
            self.kill()
            await self.exited()
            self._given_up, report = self._start_failure(error, timeout)
            if isinstance(error, HandlerNotFound) or not isinstance(error, Exception):
                raise
            raise WorkerStartError(f"{self} {self._given_up}{report}") from error
        self.alive = True

    async def run(self, items: list[Any], timeout: float) -> Sequence[Any]:  # noqa: ASYNC109
        """Run one batch; after `timeout` seconds without an answer the process is killed.

        Raises:
            Exception: What the handler raised.
            WorkerLost: The process died, or lost its GPU.
            WorkerTimeout: It was killed.
        """
        payload, refused = pack_items(items, self._memory)
        if len(refused) == len(items):
            return list(refused.values())
        answer = self._ask(payload)
        self._holding = len(items)
        loop = answer.get_loop()
        self._due = loop.time() + timeout
        if self._watchdog is None and timeout < inf:
            self._watchdog = loop.call_at(self._due, self._watch, timeout)
        try:
            received = await answer
        except EOFError:
            await self._child.ended()
            msg = f"{self} {self.fate} while it held a batch of {len(items)}"
            raise WorkerLost(msg) from None
        except FrameTooLong as error:
            self._given_up = "sent what is no answer"
            self.kill()
            raise WorkerLost(f"{self} {self._given_up}: {error}; it was killed") from None
        except asyncio.CancelledError:
            self.kill()  # its late answer must not be taken for that of another batch
            raise
        finally:
            self._due = inf
            self._holding = 0
        try:
            return unpack_beside(received, refused, len(items), self._memory)
        except MalformedFrame as error:
            self.kill()
            msg = f"{self} gave an answer that can't be read: {error}; it was killed"
            raise WorkerLost(msg) from None
        except DeviceLost as error:
            self._given_up = f"lost its GPU, {error}, and was killed"
            self.kill()
            held = f"while it held a batch of {len(items)}"
            raise WorkerLost(f"{self} {self._given_up} {held}") from error

    def kill(self) -> None:
        """End it now, whatever it does, and the processes that its handler has started."""
        self._child.kill()
        if self._watchdog is not None:
            self._watchdog.cancel()
        self._lost()

    async def exited(self) -> None:
        """Wait until nothing is left of it."""
        await self._child.exited()
        self._memory = None  # results that are still seen keep the mapping

    async def aclose(self) -> None:
        """Let it leave, or kill it if it holds a batch or doesn't; returns when it is gone."""
        self.alive = False
        if self._watchdog is not None:
            self._watchdog.cancel()
        if self._holding or self._channel is None:
            self.kill()
        else:
            self._child.hang_up()
        try:
            async with asyncio.timeout(_GRACE):
                await self.exited()
        except TimeoutError:
            self.kill()
            await self.exited()

    # ----------------------------------------------------------------------------------- messages

    def _ask(self, parts: list[Part]) -> asyncio.Future[bytearray]:
        assert self._channel is not None
        memory = self._memory
        if memory is None or not memory.has_news:
            return self._channel.ask(parts)
        try:
            return self._channel.ask(returning(parts, memory.end_message()))
        except FrameTooLong:
            memory.forget_message()
            raise

    # --------------------------------------------------------------------------------- its process

    async def _spawn(self, memory: int | None) -> RpcChannel:
        if memory is not None:
            self._memory = SharedMemory(memory, End.PARENT)
        cpus, env = self._instructions.cpus, self._instructions.env
        return await self._child.spawn(
            [] if memory is None else [memory],
            longest_answer=self._instructions.max_result_bytes,
            threads=None if cpus is None else len(cpus),
            env=env,
        )

    def _hang_up(self) -> None:
        """The socket is closed, as a rule because the process is about to end."""
        if self.alive:
            self._lost()
            asyncio.get_running_loop().call_later(_LAST_BREATH, self._end_unreachable)

    def _end_unreachable(self) -> None:
        if self._child.running:
            self._given_up = "closed the socket that it was given, and was killed"
            self.kill()

    def _lost(self) -> None:
        if self.alive:
            self.alive = False
            self._on_lost()

    # ------------------------------------------------------------------------------ what went wrong

    def _watch(self, timeout: float) -> None:
        """One timer serves all batches: it looks again when the present one will be due."""
        loop = asyncio.get_running_loop()
        self._watchdog = None
        if loop.time() >= self._due:
            self._expire(timeout)
        elif self._due < inf:
            self._watchdog = loop.call_at(self._due, self._watch, timeout)

    def _expire(self, timeout: float) -> None:
        late = f"did not answer a batch of {self._holding} in {format_duration(timeout)}"
        assert self._channel is not None
        if self._channel.fail(WorkerTimeout(f"{self} {late}; it was killed")):
            self._given_up = late
            self.kill()

    def _start_failure(self, error: BaseException, timeout: float) -> tuple[str, str]:
        """What went wrong, and what its handler had to say about that."""
        if isinstance(error, TimeoutError):
            return f"was not ready within {format_duration(timeout)}", ""
        if isinstance(error, EOFError):
            return f"{self.fate} before it was ready", ""
        report = "".join(traceback.format_exception_only(error)).strip()  # with the child's note
        return "could not load its handler", f": {report}"
