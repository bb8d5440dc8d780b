"""Requests that were not written in the order of arrival, sorted in bounded memory."""

from collections.abc import Iterator
from heapq import merge
from itertools import islice, pairwise
from operator import attrgetter
from tempfile import TemporaryFile
from typing import IO

import msgspec

from adaptive_batching.errors import TraceError
from adaptive_batching.simulation.traffic.traces.format import Request

_RUN = 2**15  # requests that are sorted in memory; a longer file goes through the disk
_PIECE = 256  # requests of each run that are in memory while runs are merged
_LENGTH = 4  # bytes that say how long a piece is

_time = attrgetter("time")
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Request]).decode


def in_order(requests: Iterator[Request], run: int = _RUN) -> Iterator[Request]:
    """Sort by time; requests of one instant keep the order of the file.

    Runs are sorted one by one, written to a temporary file and merged (an external merge sort), so
    that a file of any length takes the memory of one run.

    Args:
        requests: As they stand in the file.
        run: How many are sorted in memory.

    Raises:
        TraceError: The temporary file can't be written.
    """
    newest = sorted(islice(requests, run), key=_time)
    if len(newest) < run:
        yield from newest
        return
    try:
        yield from _merged(newest, requests, run)
    except OSError as error:
        space = "about 20 bytes a request in TMPDIR or /tmp, and its key's"
        raise TraceError(f"expected {space} to sort the trace, got {error.strerror}") from error


def _merged(newest: list[Request], requests: Iterator[Request], run: int) -> Iterator[Request]:
    with TemporaryFile() as file:
        bounds = [0]
        while newest:
            _write(file, newest)
            bounds.append(file.tell())
            newest = sorted(islice(requests, run), key=_time)
        yield from merge(*(_read(file, *each) for each in pairwise(bounds)), key=_time)


def _write(file: IO[bytes], requests: list[Request]) -> None:
    for first in range(0, len(requests), _PIECE):
        piece = _encode(requests[first : first + _PIECE])
        file.write(len(piece).to_bytes(_LENGTH) + piece)


def _read(file: IO[bytes], begin: int, end: int) -> Iterator[Request]:
    while begin < end:
        file.seek(begin)
        length = int.from_bytes(file.read(_LENGTH))
        yield from _decode(file.read(length))
        begin += _LENGTH + length
