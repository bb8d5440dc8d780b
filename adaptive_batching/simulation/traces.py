"""Recorded traffic: CSV with the header `t_seconds,size`, plain or gzipped."""

import gzip
import re
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from io import BufferedReader
from math import isfinite
from pathlib import Path

import numpy as np
import numpy.typing as npt

from adaptive_batching.errors import TraceError
from adaptive_batching.simulation.arrivals import Times

_HEADER = "t_seconds,size"
_GZIP = b"\x1f\x8b"
_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")  # no nan, inf or 1_000
_COUNT = re.compile(r"[0-9]{1,18}")  # what fits 64 bits
_SHOWN = 60  # characters of a faulty line


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests as they were recorded.

    Attributes:
        times: Seconds from the start of the recording, non-decreasing.
        sizes: What each request brought, in the recorder's unit (often tokens); 1 if not recorded.
    """

    times: Times
    sizes: npt.NDArray[np.int64]


def read_trace(path: str | Path) -> Trace:
    """Read a trace; whether it is gzipped is told from its content, not from its name.

    Raises:
        TraceError: Names the file, the line, what was expected and what was there.
    """
    times: list[float] = []
    sizes: list[int] = []
    lines = _lines(Path(path))
    _, header = next(lines, (1, ""))
    if header != _HEADER:
        raise _fault(path, 1, f"the header {_HEADER!r}", header or "an empty line or file")
    newest = 0.0
    for number, line in lines:
        columns = line.split(",")
        if len(columns) != 2:
            raise _fault(path, number, "2 columns", f"{len(columns)} in {line[:_SHOWN]!r}")
        newest = _time(columns[0], newest, path, number)
        times.append(newest)
        sizes.append(_size(columns[1], path, number))
    if not times:
        raise _fault(path, 2, "at least one request", "the end of the file")
    return Trace(np.array(times), np.array(sizes, np.int64))


def speedup(times: Times, factor: float) -> Times:
    """Divide times by a factor: more requests a second, equally irregular.

    Raises:
        ValueError: The factor is not positive, or so small that times become infinite.
    """
    if not (isfinite(factor) and factor > 0):
        raise ValueError(f"speedup: expected a positive number, got {factor}")
    with np.errstate(over="ignore"):
        faster = times / factor
    if not np.isfinite(faster).all():
        raise ValueError(f"speedup: expected a factor that leaves times finite, got {factor}")
    return faster


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines with their numbers, decompressed and decoded."""
    number = 0
    try:
        with path.open("rb") as file, closing(_unzipped(file)) as stream:
            for number, raw in enumerate(stream, 1):
                yield number, raw.decode().rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise _fault(
            path, number, "UTF-8", f"the byte 0x{error.object[error.start]:02x}"
        ) from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _fault(path, number + 1, "intact gzip data", str(error)) from error
    except OSError as error:
        raise TraceError(f"{path}: expected a readable file, got {error.strerror}") from error


def _unzipped(file: BufferedReader) -> BufferedReader | gzip.GzipFile:
    return gzip.GzipFile(fileobj=file) if file.peek(2)[:2] == _GZIP else file


def _time(text: str, newest: float, path: str | Path, number: int) -> float:
    seconds = float(text) if _NUMBER.fullmatch(text) else None
    if seconds is None or not isfinite(seconds):
        raise _fault(path, number, "a finite number of seconds", repr(text[:_SHOWN]))
    if seconds < 0:
        raise _fault(path, number, "0 seconds or more", text)
    if seconds < newest:
        raise _fault(path, number, f"times in order, {newest} or later", text)
    return seconds


def _size(text: str, path: str | Path, number: int) -> int:
    if not text:
        return 1
    if not _COUNT.fullmatch(text) or int(text) < 1:
        raise _fault(path, number, "a size that is empty or an integer from 1", repr(text[:_SHOWN]))
    return int(text)


def _fault(path: str | Path, number: int, expected: str, got: str) -> TraceError:
    return TraceError(f"{path}, line {number}: expected {expected}, got {got[:_SHOWN]}")
