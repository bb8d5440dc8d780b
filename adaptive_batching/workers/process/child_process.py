"""A Python process of ours at the other end of a socket: how it begins and ends."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from adaptive_batching.workers.process.output import Output
from adaptive_batching.workers.process.rpc_channel import RpcChannel

_LAST_ANSWER = 0.1  # seconds after its exit; what it sent is in the socket already
_FAREWELL = 0.5  # seconds for processes that it leaves behind, some of which clean up after it
_LOOK_EVERY = 0.01  # seconds; no signal tells when those have ended
_THREAD_LIMITS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "BLIS_NUM_THREADS",
    "RAYON_NUM_THREADS",
)


class ChildProcess:
    """A process that runs `adaptive_batching.workers.child`.

    Args:
        name: Under which what it prints is logged.
        on_hang_up: Called once when its socket is closed: it has ended, or can't be reached.
    """

    def __init__(self, name: str, on_hang_up: Callable[[], None]) -> None:
        self._name = name
        self._on_hang_up = on_hang_up
        self._process: asyncio.subprocess.Process | None = None
        self._output: Output | None = None
        self._channel: RpcChannel | None = None
        self._mourning = asyncio.Lock()
        self._mourned = False

    @property
    def running(self) -> bool:
        """Whether it has begun and not ended."""
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int | None:
        """The process id, once there is a process."""
        return self._process.pid if self._process else None

    @property
    def fate(self) -> str:
        """How it ended: "was killed by SIGKILL"."""
        code = self._process.returncode if self._process else None
        if code is None or code >= 0:
            return f"exited with {code}"
        names = {each.value: each.name for each in signal.Signals}  # real-time signals have none
        return f"was killed by {names.get(-code, f'signal {-code}')}"

    async def spawn(
        self,
        inherited: Sequence[int],
        *,
        longest_answer: int,
        threads: int | None,
        env: Mapping[str, str],
    ) -> RpcChannel:
        """Start it; returns our end of its socket.

        Args:
            inherited: File descriptors that it gets; it is told their numbers.
            longest_answer: Bytes that a frame of its may have.
            threads: How many BLAS and OpenMP may start in it; None for as many as they like.
            env: Variables that it has besides, or in the place of, ours.
        """
        ours, theirs = socket.socketpair()
        self._output = Output(self._name)
        try:
            with theirs, self._output.write_ends() as (out, err):
                descriptors = (theirs.fileno(), *inherited)
                self._process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-P",  # a file in the working directory must not hide a module
                    "-X",
                    "faulthandler",  # a crash in C code tells which line of Python called it
                    "-m",
                    "adaptive_batching.workers.child",
                    *map(str, descriptors),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    pass_fds=descriptors,
                    start_new_session=True,  # Ctrl-C is for the parent, also while it boots
                    env={**os.environ, **_thread_limits(threads), **env},
                )
            _, self._channel = await asyncio.get_running_loop().create_unix_connection(
                lambda: RpcChannel(self._on_hang_up, longest_answer), sock=ours
            )
        except BaseException:
            ours.close()
            raise
        return self._channel

    def hang_up(self) -> None:
        """Close its socket; it leaves, unless it is busy."""
        if self._channel is not None:
            self._channel.close()

    def kill(self) -> None:
        """End it now, whatever it does; `exited` ends those that its handler has started."""
        if self._process is not None and self.running:
            # Process.kill would poll first, and take the exit status away from asyncio's watcher
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)
            _signal_group(self._process.pid, signal.SIGTERM)
        self.hang_up()

    async def ended(self) -> None:
        """Wait for its end, after which its fate is known."""
        if self._process is not None:
            await self._process.wait()

    async def exited(self) -> None:
        """Wait until nothing is left of it, nor of the processes that its handler has started."""
        if self._process is not None:
            await self._process.wait()
            if self._channel is not None and not await self._channel.ended(_LAST_ANSWER):
                self._channel.close()  # processes that it forked hold the other end
            await self._end_those_left(self._process.pid)
        if self._output is not None:
            self._output.close()

    async def _end_those_left(self, group: int) -> None:
        async with self._mourning:
            if self._mourned:  # by now the number may be another's
                return
            self._mourned = True
            # multiprocessing's tracker of shared memory ignores it, and unlinks what it was told of
            left = _signal_group(group, signal.SIGTERM)
            try:
                async with asyncio.timeout(_FAREWELL):
                    while left:
                        await asyncio.sleep(_LOOK_EVERY)
                        left = _signal_group(group, 0)
            except TimeoutError:
                pass
            finally:
                if left:
                    _signal_group(group, signal.SIGKILL)


def _thread_limits(threads: int | None) -> dict[str, str]:
    """Libraries read these when they are loaded, so they must be there before Python starts."""
    return {} if threads is None else {name: _limit(name, threads) for name in _THREAD_LIMITS}


def _limit(name: str, threads: int) -> str:
    """At most so many; fewer if the user said so."""
    asked = os.environ.get(name, "")
    return asked if asked.isdecimal() and 0 < int(asked) < threads else str(threads)


def _signal_group(group: int, number: int) -> bool:
    """Whether there is a process that it has reached."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):  # none, or only others' processes
        return False
    return True
