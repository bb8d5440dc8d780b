"""One worker in a Ray actor, on whichever machine of the cluster has room for it (extra: ray).

Ray places the actor and says when it has died; batches, deadlines, restarts and permits are ours.
Payloads are our own bytes both ways, so that what a handler raises comes back as itself and not as
Ray's. Ray runs any code of any process that reaches its ports, and has to keep them shut itself:
hence ray>=2.52, which has `RAY_AUTH_MODE=token`.
"""

import asyncio
import signal
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from adaptive_batching.errors import WorkerLost, WorkerStartError, WorkerTimeout
from adaptive_batching.units import format_duration
from adaptive_batching.workers.handler.device import DeviceLost
from adaptive_batching.workers.process.serialization import pack_items, unpack_answer, unpack_beside
from adaptive_batching.workers.process.worker_loop import WorkerLoop
from adaptive_batching.workers.worker_index import number_process

_LIFE = "life"  # Ray's name for the thread that only waits for the end


class RayLauncher:
    """A `Launcher` of actors, in the cluster that this program has joined, or else joins now.

    Args:
        handler: What runs a batch; see `RayActor`.
        wrap: What to wrap it in.
        options: What Ray is asked for, for each actor.
        address: The cluster; None for `RAY_ADDRESS` or, without it, one on this machine alone.
    """

    most = None

    def __init__(
        self, handler: Any, wrap: Any, options: Mapping[str, Any], address: str | None
    ) -> None:
        self._handler = handler
        self._wrap = wrap
        self._options = options
        self._address = address

    async def prepare(self) -> None:
        """Join the cluster; leaving it is left to the end of the program, as Ray does.

        Raises:
            WorkerStartError: There is none.
        """
        if ray.is_initialized():
            return
        join = partial(ray.init, self._address, include_dashboard=False)
        try:
            await asyncio.get_running_loop().run_in_executor(None, join)  # it takes seconds
        except (ConnectionError, RuntimeError, TimeoutError) as error:
            where = self._address or "the one that RAY_ADDRESS names"
            msg = f"expected a Ray cluster to join, {where}, got none: {error}"
            raise WorkerStartError(msg) from error
        _take_signal_back()

    def launch(self, number: int, on_lost: Callable[[], None]) -> "RayActor":
        """Make an actor; see `Launcher.launch`."""
        return RayActor(number, self._handler, self._wrap, self._options, on_lost)


def _take_signal_back() -> None:
    """Let SIGTERM end the program as it wants to.

    Ray's core, joined from a thread, replaces the handler by one that prints a stack and aborts;
    Python does not know of it, and takes its own handler for the one that is there.
    """
    handler = signal.getsignal(signal.SIGTERM)
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)
        signal.siginterrupt(signal.SIGTERM, False)  # noqa: FBT003 - as asyncio has it


class RayActor:
    """An actor that builds a handler and runs batches with it, one at a time.

    Args:
        number: Its place in the pool, for messages.
        handler: What runs a batch. It travels as Ray lets it: by name where that can be imported,
            or else by value.
        wrap: Takes the handler, ready to be called, and returns what to call; None for nothing.
        options: What Ray is asked for: `num_cpus`, `num_gpus`, `resources`, `runtime_env`, ...
        on_lost: Called once when it can take no more batches.
    """

    pid = None

    def __init__(
        self,
        number: int,
        handler: Any,
        wrap: Any,
        options: Mapping[str, Any],
        on_lost: Callable[[], None],
    ) -> None:
        self.alive = False
        """Whether it can take batches, or holds one."""
        self.fate = "is not known to have ended"
        """How it ended; see `PoolWorker.fate`."""
        self._number = number
        self._handler = handler
        self._wrap = wrap
        self._options = options
        self._on_lost = on_lost
        self._actor: Any = None
        self._life: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        actor = "not started" if self._actor is None else repr(self._actor)  # with Ray's id of it
        return f"worker {self._number} ({actor})"

    async def start(self, timeout: float) -> None:  # noqa: ASYNC109 - kills, not only cancels
        """Have it placed and wait until it is ready, at most `timeout` seconds.

        Raises:
            WorkerStartError: No machine has room, it can't load its handler, or it died.
        """
        self._actor = _Actor.options(max_restarts=0, **self._options).remote(self._number)
        self._life = asyncio.create_task(self._until_dead(), name=f"life of {self!r}")
        try:
            async with asyncio.timeout(timeout):
                unpack_answer(
                    bytearray(await self._actor.prepare.remote(self._handler, self._wrap))
                )
        except BaseException as error:
            self.kill()
            await self.exited()
            if not isinstance(error, Exception):
                raise
            raise WorkerStartError(self._start_failure(error, timeout)) from error
        self.alive = True

    async def run(self, items: list[Any], timeout: float) -> Sequence[Any]:  # noqa: ASYNC109
        """Run one batch; after `timeout` seconds without an answer the actor is killed.

        Raises:
            Exception: What the handler raised.
            WorkerLost: The actor, or its machine, died, or it lost its GPU.
            WorkerTimeout: It was killed.
        """
        payload, refused = pack_items(items)
        if len(refused) == len(items):
            return list(refused.values())
        try:
            async with asyncio.timeout(timeout):
                answer = await self._actor.answer.remote(b"".join(payload))
        except TimeoutError:
            self.kill()
            waited = format_duration(timeout)
            msg = f"{self} did not answer a batch of {len(items)} in {waited}; it was killed"
            raise WorkerTimeout(msg) from None
        except RayError as error:
            self.kill()  # what else it may have been: an answer that was lost with its machine
            msg = f"{self} died while it held a batch of {len(items)}: {_cause(error)}"
            raise WorkerLost(msg) from error
        except asyncio.CancelledError:
            self.kill()  # it would go on with a batch that no call waits for
            raise
        try:
            return unpack_beside(bytearray(answer), refused, len(items))
        except DeviceLost as error:
            self.kill()
            lost = f"{self} lost its GPU, {error}, and was killed"
            raise WorkerLost(f"{lost} while it held a batch of {len(items)}") from error

    def kill(self) -> None:
        """End it now, whatever it does."""
        if self._actor is not None and ray.is_initialized():
            ray.kill(self._actor)
        self._lost()

    async def exited(self) -> None:
        """Wait until Ray says that it is dead."""
        if self._life is not None:
            await asyncio.shield(self._life)

    async def aclose(self) -> None:
        """End it; returns when it is gone."""
        self.alive = False
        self.kill()
        await self.exited()

    async def _until_dead(self) -> None:
        """An actor that holds no batch dies silently, but for this call that it never answers."""
        try:
            await self._actor.until_dead.remote()
        except RayError as error:
            self.fate = f"died: {_cause(error)}"
            self._lost()

    def _lost(self) -> None:
        if self.alive:
            self.alive = False
            self._on_lost()

    def _start_failure(self, error: Exception, timeout: float) -> str:
        if isinstance(error, TimeoutError):
            wanted = ", ".join(f"{name}={value}" for name, value in self._options.items())
            return (
                f"{self} was not ready within {format_duration(timeout)}: expected room for"
                f" {wanted}, the cluster has {_room()} left"
            )
        if isinstance(error, RayTaskError):  # its arguments: the handler's module isn't there
            return f"{self} could not receive its handler: {_cause(error)}"
        if isinstance(error, RayError):
            return f"{self} died before it was ready: {_cause(error)}"
        report = "".join(traceback.format_exception_only(error)).strip()  # with the actor's note
        return f"{self} could not load its handler: {report}"


class _InActor:
    """What runs in the actor of a place in the pool."""

    def __init__(self, number: int) -> None:
        number_process(number)
        self._runner = asyncio.Runner()
        self._loop = WorkerLoop(self._runner)

    def prepare(self, handler: Any, wrap: Any) -> bytes:
        """Build the handler, in the thread that will run batches."""
        return b"".join(self._loop.prepare(lambda: (handler, wrap)))

    def answer(self, payload: bytes) -> bytes:
        """Run one batch; arrays in it may be written to, hence the copy."""
        return b"".join(self._loop.answer(bytearray(payload)))

    @ray.method(concurrency_group=_LIFE)  # type: ignore[untyped-decorator]
    def until_dead(self) -> None:
        """Never returns."""
        threading.Event().wait()


_Actor = ray.remote(concurrency_groups={_LIFE: 1})(_InActor)


def _cause(error: RayError) -> str:
    """Ray's reports go on for pages."""
    return str(error).strip().splitlines()[0]


def _room() -> str:
    left = {
        name: amount
        for name, amount in ray.available_resources().items()
        if name in {"CPU", "GPU"} or ":" not in name
    }
    return ", ".join(f"{name}={amount:g}" for name, amount in sorted(left.items())) or "nothing"
