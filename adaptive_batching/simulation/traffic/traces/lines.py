"""The lines of a file: decompressed, decoded, numbered, and no more of them than is sane."""

import gzip
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from adaptive_batching.errors import TraceError

SHOWN = 60  # characters of a faulty line
_GZIP = b"\x1f\x8b"
_LONGEST_LINE = 2**20  # bytes; a request of a million tokens with all its block hashes has 20 KiB
_MOST_LINES = 10**9
_FREE = 2**22  # bytes that any gzip may unpack to
_RATIO = 200  # beyond it: real traces shrink to a tenth, deflate bombs to a thousandth


def shown(first: str) -> str:
    """A first line as it stands in a message, where what is invisible can be seen."""
    return repr(first[: SHOWN - 2]) if first else "an empty line or file"


class Lines:
    """An iterator of lines that knows where it is, for the messages of its readers.

    Raises:
        TraceError: On the line where the file turns out to be damaged, endless or unreadable.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.number = 0
        self._lines = self._read()

    def __iter__(self) -> Iterator[str]:
        return self._lines

    def first(self) -> str:
        """The first line, which is read again afterwards; empty if there is none."""
        line = next(self._lines, "")
        self._lines = self._again(line, self._lines)
        return line

    def fault(self, expected: str, got: str) -> TraceError:
        """An error about the current line."""
        return self.fault_at(f"line {max(1, self.number)}", expected, got)

    def fault_at(self, where: str, expected: str, got: str) -> TraceError:
        """An error about a place that is not a line."""
        return TraceError(f"{self.path}, {where}: expected {expected}, got {got[:SHOWN]}")

    def _again(self, line: str, rest: Iterator[str]) -> Iterator[str]:
        if self.number:
            yield line
        yield from rest

    def _read(self) -> Iterator[str]:
        try:
            with self.path.open("rb") as file:
                if file.peek(2)[:2] == _GZIP:
                    with gzip.GzipFile(fileobj=file) as unzipped:
                        yield from self._decoded(unzipped.readline, file.tell)
                else:
                    yield from self._decoded(file.readline)
        except UnicodeDecodeError as error:
            raise self.fault("UTF-8", f"the byte 0x{error.object[error.start]:02x}") from error
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            self.number += 1
            got = "a file that ends too soon" if isinstance(error, EOFError) else str(error)
            raise self.fault("intact gzip data", got) from error
        except OSError as error:
            msg = f"{self.path}: expected a readable file, got {error.strerror}"
            raise TraceError(msg) from error

    def _decoded(
        self, readline: Callable[[int], bytes], packed: Callable[[], int] | None = None
    ) -> Iterator[str]:
        unpacked = 0
        while raw := readline(_LONGEST_LINE):
            self.number += 1
            unpacked += len(raw)
            if len(raw) == _LONGEST_LINE:
                raise self.fault(f"a line of less than {_LONGEST_LINE:,} bytes", "a longer one")
            if self.number > _MOST_LINES:
                raise self.fault(f"{_MOST_LINES:,} lines at the most", "more")
            if packed and unpacked > _FREE and unpacked > _RATIO * packed():
                raise self.fault(f"gzip data that unpack to {_RATIO} times their size", "more")
            text = raw.decode("utf-8-sig" if self.number == 1 else "utf-8")
            yield text.rstrip("\r\n")
