"""Memory shared with a worker process, in which large arrays cross at the price of one copy.

The memory is a memfd that the parent makes and the child inherits. It has no name: nothing has to
be unlinked, and it is gone with the last process that maps it, whichever was killed and how.
`multiprocessing.shared_memory` has names in /dev/shm, which SIGKILL of the parent leaves behind
unless a third process, its resource tracker, survives to remove them; containers limit /dev/shm to
64 MiB. A memfd is also sealed here: a file that the child could make shorter would kill the parent
with SIGBUS when it reads what was cut off.

Each end allocates in a half of its own, which the other only reads until it gives it back. What it
gives back is told in its next message: both ends speak by turns, so no lock is needed, and none can
be left behind by a process that dies. The whole is mapped once, and pages are used again.
"""

import fcntl
import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from functools import partial
from mmap import mmap
from weakref import ref

from adaptive_batching.workers.arena import ALIGNMENT, Arena


class OutOfBounds(ValueError):
    """The other end names memory that it may not name; it is broken."""


class End(Enum):
    """The two processes."""

    PARENT = 0
    CHILD = 1


@contextmanager
def created(size: int) -> Iterator[int | None]:
    """A descriptor of new memory of `size` bytes, for a child to inherit; closed afterwards.

    It is None if the size is 0 or the system, not being Linux, has no memfd. Pages that were never
    written to take no memory.
    """
    if not size or not hasattr(os, "memfd_create"):
        yield None
        return
    fd = os.memfd_create("adaptive-batching", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, size)
        seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
        yield fd
    finally:
        os.close(fd)


class SharedMemory:
    """One end of the memory: lends what it writes, borrows what the other end wrote.

    It is unmapped when neither this object nor anything laid over borrowed memory is left.

    Args:
        fd: A descriptor of the memory; not needed any more afterwards.
        end: Which of the two processes this is.
    """

    def __init__(self, fd: int, end: End) -> None:
        size = os.fstat(fd).st_size
        self._memory = mmap(fd, size)
        middle = size // 2 // ALIGNMENT * ALIGNMENT
        halves = range(middle), range(middle, size)
        ours, self._theirs = halves if end is End.PARENT else halves[::-1]
        self._arena = Arena(ours.start, ours.stop)
        self._borrowed: dict[int, ref[object]] = {}
        # appended to by whichever thread drops the last view
        self._given_back: deque[int] = deque()
        self.has_news = False
        """Whether the next message lends or gives back anything; small batches have no need to."""
        self.lending_bytes = 0
        """What the message that is being written has lent so far."""
        self._lending: list[int] = []  # in that message
        self._lent: list[int] = []  # in the latest message that had news
        self._told: list[int] = []  # in that one, too

    def lend(self, buffers: Iterable[memoryview]) -> list[int | None]:
        """Copy buffers of bytes in, for the next message.

        Returns:
            Where each begins; None for those that there is no room for.
        """
        starts = [self._lend(buffer) for buffer in buffers]
        self._lending += [start for start in starts if start is not None]
        return starts

    def borrow(self, start: int, size: int) -> memoryview:
        """Bytes that the other end has lent, ours until the last view of them is gone.

        Raises:
            OutOfBounds: They are not in its half, or borrowed already.
        """
        # a worker without large arrays has no use for NumPy, which takes 0.1 s to import
        from numpy import frombuffer, uint8  # noqa: PLC0415

        if not self._theirs.start <= start <= start + size <= self._theirs.stop:
            msg = (
                f"expected memory between {self._theirs.start} and {self._theirs.stop}, "
                f"got {size} bytes at {start}"
            )
            raise OutOfBounds(msg)
        if start in self._borrowed:
            msg = f"expected memory that is not in use, got {size} bytes at {start}"
            raise OutOfBounds(msg)
        # of what can be laid over a part of a mapping, only an array tells when it dies
        block = frombuffer(self._memory, uint8, size, start)
        self._borrowed[start] = ref(block, partial(self._give_back, start))
        return block.data

    def end_message(self) -> Sequence[int]:
        """End a message that has news with this: borrowed, and seen by nobody here any more."""
        self.has_news = False  # before the rest: a view may die meanwhile, in another thread
        self._lent, self._lending, self.lending_bytes = self._lending, [], 0
        self._told = [self._given_back.popleft() for _ in range(len(self._given_back))]
        return self._told

    def take_back(self, starts: Iterable[int]) -> None:
        """What the other end does not see any more may be written to again.

        Raises:
            OutOfBounds: It was not lent.
        """
        for start in starts:
            try:
                self._arena.free(start)
            except KeyError:
                msg = f"expected memory that was lent, got {start} back"
                raise OutOfBounds(msg) from None

    def forget_message(self) -> None:
        """The message that was ended last can't be sent."""
        self.take_back(self._lent)
        self._given_back.extend(self._told)
        self._lent, self._told, self.has_news = [], [], True

    def _lend(self, buffer: memoryview) -> int | None:
        start = self._arena.allocate(len(buffer))
        if start is not None:
            self._memory[start : start + len(buffer)] = buffer
            self.lending_bytes += len(buffer)
            self.has_news = True
        return start

    def _give_back(self, start: int, _: ref[object]) -> None:
        del self._borrowed[start]
        self._given_back.append(start)
        self.has_news = True
