"""What a worker process prints, as lines of our log."""

import asyncio
import logging
import os
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from io import FileIO

_CHUNK = 2**16  # bytes; what a pipe holds on Linux
_LONGEST = 4096  # bytes of a line
_MOST = 200  # lines of a stream in a window; more is a flood, which is not read
_WINDOW = 1.0  # seconds
_PACE = 0.001  # seconds between two looks; a flood would keep the loop busy otherwise

_END = re.compile(rb"[\r\n]+")  # progress bars only return


class Output:
    """Standard output and error of one worker process, line by line in a logger of its name.

    Output has level INFO and error WARNING. While logging is not configured, they go where
    ours go. Floods are read, so that the worker need not wait for us, but only counted.

    Args:
        name: Of the logger, below `adaptive_batching.workers`.
    """

    def __init__(self, name: str) -> None:
        log = logging.getLogger(f"adaptive_batching.workers.{name}")
        self._streams = _Stream(log, logging.INFO), _Stream(log, logging.WARNING)

    @contextmanager
    def write_ends(self) -> Iterator[tuple[int, int]]:
        """Read what is written to these two file descriptors; a child may inherit them inside."""
        with ExitStack() as stack:
            out, err = (stream.opened(stack) for stream in self._streams)
            yield out, err

    def close(self) -> None:
        """Log the last words and stop reading; safe to call twice."""
        for stream in self._streams:
            stream.close()


class LogLines:
    """Cuts a stream of bytes into lines; blank ones are left out, the end of long ones, too."""

    def __init__(self) -> None:
        self._open = b""  # a line whose end has not come

    def feed(self, data: bytes, most: int) -> tuple[list[str], int]:
        """Take the next bytes.

        Returns:
            The lines that they complete, at most about `most`, and how many more there are.
        """
        pieces = _END.split(self._open + data, most) if most else [self._open + data]
        *ended, rest = pieces
        skipped = 0
        if len(ended) == most:
            skipped = rest.count(b"\n")
            rest = rest[rest.rfind(b"\n") + 1 :]
        self._open = rest[: _LONGEST + 1]
        return [_text(line) for line in ended if line], skipped

    def end(self) -> list[str]:
        """The last line, if it has no end."""
        rest, self._open = self._open, b""
        return [_text(rest)] if rest else []


class _Stream:
    def __init__(self, log: logging.Logger, level: int) -> None:
        self._log = log
        self._level = level
        self._loop = asyncio.get_running_loop()
        self._lines = LogLines()
        self._left = _MOST
        self._dropped = 0
        self._pipe: FileIO | None = None
        self._pause: asyncio.TimerHandle | None = None
        self._window: asyncio.TimerHandle | None = None

    def opened(self, stack: ExitStack) -> int:
        ours, theirs = os.pipe()
        stack.callback(os.close, theirs)
        os.set_blocking(ours, False)
        self._pipe = FileIO(ours)
        self._watch(self._pipe)
        return theirs

    def close(self) -> None:
        if self._pipe is None:
            return
        pipe, self._pipe = self._pipe, None
        self._loop.remove_reader(pipe)
        if self._pause is not None:
            self._pause.cancel()
        self._take(pipe.read(_CHUNK) or b"")  # all that it holds; grandchildren may keep it open
        pipe.close()
        for line in self._lines.end():
            self._write(line)
        if self._window is not None:
            self._window.cancel()
            self._sum_up()

    def _watch(self, pipe: FileIO) -> None:
        self._loop.add_reader(pipe, self._readable, pipe)

    def _readable(self, pipe: FileIO) -> None:
        data = pipe.read(_CHUNK)
        if data is None:  # there is nothing after all
            return
        self._loop.remove_reader(pipe)
        if data:
            self._take(data)
            self._pause = self._loop.call_later(_PACE, self._watch, pipe)

    def _take(self, data: bytes) -> None:
        lines, skipped = self._lines.feed(data, self._left)
        self._left -= len(lines)
        self._dropped += skipped
        for line in lines:
            self._write(line)
        if self._window is None and (lines or skipped):
            self._window = self._loop.call_later(_WINDOW, self._sum_up)

    def _sum_up(self) -> None:
        self._window = None
        self._left = _MOST
        dropped, self._dropped = self._dropped, 0
        if dropped:
            self._write(f"({dropped} more lines within a second were dropped)")

    def _write(self, line: str) -> None:
        if self._level < logging.WARNING and not self._log.hasHandlers():
            sys.stdout.write(f"{line}\n")  # Python's handler of last resort takes warnings only
            sys.stdout.flush()
        else:
            self._log.log(self._level, "%s", line)


def _text(line: bytes) -> str:
    text = line[:_LONGEST].decode(errors="backslashreplace")
    return f"{text} (cut at {_LONGEST} bytes)" if len(line) > _LONGEST else text
