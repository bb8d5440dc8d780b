"""What this process holds of the system's resources, to see what it forgot to give back."""

import asyncio
import os
import threading
from dataclasses import astuple, dataclass
from typing import Self

import psutil

_LOOKS, _PAUSE = 200, 0.01  # and seconds between; loop and threads close and end a moment later


@dataclass(frozen=True, slots=True)
class Holdings:
    """Counts of what can leak.

    Attributes:
        files: Open file descriptors.
        processes: Children and theirs, those not reaped yet among them.
        threads: Of this process.
        tasks: Of the event loop that runs.
    """

    files: int
    processes: int
    threads: int
    tasks: int

    @classmethod
    def now(cls) -> Self:
        """Count."""
        children = psutil.Process().children(recursive=True)
        files = len(os.listdir("/proc/self/fd"))
        return cls(files, len(children), threading.active_count(), len(asyncio.all_tasks()))

    async def leaked(self) -> int:
        """How much more there is now, once all had time to give back."""
        for _ in range(_LOOKS):
            if not (leaked := self._more()):
                break
            await asyncio.sleep(_PAUSE)
        return leaked

    def _more(self) -> int:
        pairs = zip(astuple(self), astuple(Holdings.now()), strict=True)
        return sum(max(0, now - before) for before, now in pairs)
