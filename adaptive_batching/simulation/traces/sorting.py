"""Requests that were not written in the order of arrival, sorted in bounded memory."""

from array import array
from collections.abc import Iterator
from heapq import merge
from itertools import islice, pairwise
from operator import itemgetter
from tempfile import TemporaryFile
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from adaptive_batching.errors import TraceError
from adaptive_batching.simulation.traces.format import Request

_RUN = 2**15  # requests that are sorted in memory; a longer file goes through the disk
_PIECE = 256  # requests of each run that are in memory while runs are merged
_RECORD = np.dtype([("time", np.float64), ("size", np.int64)])

Records = npt.NDArray[Any]  # of _RECORD


def in_order(requests: Iterator[Request], run: int = _RUN) -> Iterator[Request]:
    """Sort by time; who came at one instant keeps the order of the file.

    Runs are sorted one by one, written to a temporary file and merged (an external merge sort), so
    that a file of any length takes the memory of one run.

    Args:
        requests: As they stand in the file.
        run: How many are sorted in memory.

    Raises:
        TraceError: The temporary file can't be written.
    """
    newest = _sorted_run(requests, run)
    if len(newest) < run:
        yield from _pieces(newest)
        return
    try:
        yield from _merged(newest, requests, run)
    except OSError as error:
        space = f"{_RECORD.itemsize} bytes a request in TMPDIR or /tmp"
        raise TraceError(f"expected {space} to sort the trace, got {error.strerror}") from error


def _merged(newest: Records, requests: Iterator[Request], run: int) -> Iterator[Request]:
    with TemporaryFile() as file:
        ends = [0]
        while len(newest):
            file.write(newest.tobytes())
            ends.append(ends[-1] + len(newest))
            newest = _sorted_run(requests, run)
        yield from merge(*(_read(file, *bounds) for bounds in pairwise(ends)), key=itemgetter(0))


def _sorted_run(requests: Iterator[Request], run: int) -> Records:
    times, sizes = array("d"), array("q")
    for time, size in islice(requests, run):
        times.append(time)
        sizes.append(size)
    order = np.argsort(times, kind="stable")
    records = np.empty(len(times), _RECORD)
    records["time"], records["size"] = np.array(times)[order], np.array(sizes, np.int64)[order]
    return records


def _pieces(records: Records) -> Iterator[Request]:
    for first in range(0, len(records), _PIECE):
        yield from records[first : first + _PIECE].tolist()


def _read(file: IO[bytes], begin: int, end: int) -> Iterator[Request]:
    for first in range(begin, end, _PIECE):
        file.seek(first * _RECORD.itemsize)
        piece = file.read(min(_PIECE, end - first) * _RECORD.itemsize)
        yield from np.frombuffer(piece, _RECORD).tolist()
