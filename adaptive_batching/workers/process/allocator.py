"""Which bytes of a range are taken: blocks are allocated first fit and freed in any order."""

from bisect import bisect
from operator import itemgetter

ALIGNMENT = 64  # bytes; a cache line, and as much as any vector instruction asks for
_START = itemgetter(0)


class Allocator:
    """Hands out blocks of the bytes from `start`, which is aligned, to `stop`.

    First fit takes the lowest bytes that are large enough, so that a steady stream of batches comes
    by the same pages again and again: only memory touched for the first time is slow.
    """

    def __init__(self, start: int, stop: int) -> None:
        self._holes = [(start, stop)]  # in order, none empty, none beside another
        self._blocks: dict[int, int] = {}  # where each begins and ends

    def allocate(self, size: int) -> int | None:
        """Take a block of at least `size` bytes; returns where it begins, None if none fits."""
        size += -size % ALIGNMENT
        for index, (start, stop) in enumerate(self._holes):
            end = start + size
            if end <= stop:
                self._holes[index : index + 1] = [(end, stop)] if end < stop else []
                self._blocks[start] = end
                return start
        return None

    def holds(self, start: int, size: int) -> bool:
        """Whether a block of at least `size` bytes that begins at `start` is taken."""
        return start + size <= self._blocks.get(start, -1)

    def free(self, start: int) -> None:
        """Give back the block that begins at `start`.

        Raises:
            KeyError: No block begins there.
        """
        stop = self._blocks.pop(start)
        first = last = bisect(self._holes, start, key=_START)  # the hole that follows, if any
        if first and self._holes[first - 1][1] == start:
            first -= 1
            start = self._holes[first][0]
        if last < len(self._holes) and self._holes[last][0] == stop:
            stop = self._holes[last][1]
            last += 1
        self._holes[first:last] = [(start, stop)]
