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

A handler that returns its items, written to in place or not, leaves them where they are: what it
sees no more is handed back uncopied, and the end that allocated it sees it then.
"""

import fcntl
import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from functools import cache
from importlib import import_module
from mmap import mmap
from types import ModuleType
from typing import Any
from weakref import getweakrefs, ref

from adaptive_batching.workers.process.allocator import ALIGNMENT, Allocator


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


class _Borrowed(ref[Any]):
    """Tells when the last view of a block is gone, and where it began."""

    __slots__ = ("start",)
    start: int


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
        halves = (0, middle), (middle, size)
        ours, self._theirs = halves if end is End.PARENT else halves[::-1]
        self._allocator = Allocator(*ours)
        self._borrowed: dict[int, _Borrowed] = {}
        # appended to by whichever thread drops the last view
        self._given_back: deque[int] = deque()
        self._come_home: deque[int] = deque()  # our own blocks, which nothing sees any more
        self.has_news = False
        """Whether the next message lends or gives back anything; small batches have no need to."""
        self.lending_bytes = 0
        """What the message that is being written has lent so far."""
        self._lending: list[int] = []  # in that message
        self._lent: list[int] = []  # in the latest message that had news
        self._handing_back: list[int] = []  # in that message, the other's
        self._told: list[int] = []  # in that one, too: seen by nothing here

    def lend(self, buffer: memoryview) -> int | None:
        """Copy bytes in for the next message; returns where they begin, None without room."""
        self._free_what_came_home()
        size = len(buffer)
        start = self._allocator.allocate(size)
        if start is not None:
            self._memory[start : start + size] = buffer
            self._lending.append(start)
            self.lending_bytes += size
            self.has_news = True
        return start

    def borrow(self, start: int, size: int) -> memoryview:
        """Bytes that the other end has lent or handed back, ours until the last view is gone.

        Raises:
            OutOfBounds: They are not in its half, nor lent by us, or borrowed already.
        """
        self._free_what_came_home()
        first, stop = self._theirs
        if not (first <= start <= start + size <= stop or self._allocator.holds(start, size)):
            msg = f"expected memory between {first} and {stop}, got {size} bytes at {start}"
            raise OutOfBounds(msg)
        if start in self._borrowed:
            msg = f"expected memory that is not in use, got {size} bytes at {start}"
            raise OutOfBounds(msg)
        # of what can be laid over a part of a mapping, only an array tells when it dies
        block = self._block(start, size)
        borrowed = self._borrowed[start] = _Borrowed(block, self._drop)
        borrowed.start = start
        return memoryview(block)

    @property
    def borrows(self) -> bool:
        """Whether anything is borrowed."""
        return bool(self._borrowed)

    def start_of(self, block: object) -> int | None:
        """Where borrowed memory begins, that an array has as its base; None if it is none."""
        for each in getweakrefs(block):
            if type(each) is _Borrowed and self._borrowed.get(each.start) is each:
                return each.start
        return None

    def hand_back(self, starts: Sequence[int], size: int) -> bool:
        """Leave borrowed blocks of `size` bytes together to the other end, to see them again.

        Returns:
            False if something here sees one of them still: then nothing has changed.
        """
        given_back = self._given_back
        if not set(given_back.copy()).issuperset(starts):
            return False
        for start in starts:
            given_back.remove(start)
        self._handing_back += starts
        self.lending_bytes += size
        self.has_news = True
        return True

    def seen(self, start: int, size: int) -> memoryview:
        """Bytes of a block that was borrowed, and that the other end was not told to have back."""
        return memoryview(self._block(start, size))

    def end_message(self) -> Sequence[int]:
        """End a message that has news with this: borrowed, and seen by nothing here any more."""
        self.has_news = False  # before the rest: a view may die meanwhile, in another thread
        self._lent, self._lending, self.lending_bytes = self._lending, [], 0
        told = [self._given_back.popleft() for _ in range(len(self._given_back))]
        self._told, self._handing_back = told + self._handing_back, []
        return told

    def take_back(self, starts: Iterable[int]) -> None:
        """What the other end does not see any more may be written to again.

        Raises:
            OutOfBounds: It was not lent, or is seen here.
        """
        self._free_what_came_home()
        for start in starts:
            if start in self._borrowed or not self._allocator.holds(start, 0):
                msg = f"expected memory that was lent, got {start} back"
                raise OutOfBounds(msg)
            self._allocator.free(start)

    def forget_message(self) -> None:
        """The message that was ended last can't be sent."""
        self.take_back(self._lent)
        self._given_back.extend(self._told)
        self._lent, self._told, self.has_news = [], [], True

    def _block(self, start: int, size: int) -> Any:
        return numpy().frombuffer(self._memory, "B", size, start)

    def _free_what_came_home(self) -> None:
        while self._come_home:
            self._allocator.free(self._come_home.popleft())

    def _drop(self, dead: ref[Any]) -> None:
        start: int = dead.start  # type: ignore[attr-defined]
        del self._borrowed[start]
        first, stop = self._theirs
        if first <= start < stop:
            self._given_back.append(start)
            self.has_news = True
        else:
            self._come_home.append(start)


@cache
def numpy() -> ModuleType:
    """NumPy; importing it takes 0.1 s, which a worker without large arrays need not wait."""
    return import_module("numpy")
