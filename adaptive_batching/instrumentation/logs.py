"""Log lines for people or programs, written in a thread: the event loop waits for no terminal."""

import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from copy import copy
from datetime import UTC, datetime
from logging.handlers import QueueHandler
from queue import Full, Queue
from threading import Thread
from typing import Literal, Self

Format = Literal["text", "json"]

_TEXT = "%(asctime)s %(levelname)s %(name)s %(message)s"
_MOST_WAITING = 1024  # lines; a terminal or a collector that reads so slowly reads too slowly
_LAST_WORDS = 1.0  # seconds to write what waits, at the end
_OF_ANY_RECORD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_log = logging.getLogger("adaptive_batching")


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and whatever the line is about.

    Times are UTC, as RFC 3339 writes them. Fields come from `extra`: `request_id`, `endpoint`,
    `code`. Line ends and other control characters are escaped, so that no client can forge a line.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Write one line."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields = vars(record).items()
        line |= {name: value for name, value in fields if name not in _OF_ANY_RECORD}
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        if record.exc_text:
            line["exception"] = record.exc_text
        return json.dumps(line, default=str)


class Logs:
    """Passes log records on to a thread that writes them; what does not fit between is dropped.

    Args:
        form: `text` for people, `json` for programs.
        descriptor: What is written to; standard error.
    """

    def __init__(self, form: Format = "text", descriptor: int = 2) -> None:
        queue: Queue[logging.LogRecord | None] = Queue(_MOST_WAITING)
        self._queue = queue
        self._handler = _Handler(queue)
        formatter = JsonFormatter() if form == "json" else logging.Formatter(_TEXT)
        output = _Output(descriptor, formatter)
        self._thread = Thread(target=self._write, args=(output,), name="log", daemon=True)

    @property
    def dropped(self) -> int:
        """Lines that were dropped, because they were not written fast enough."""
        return self._handler.dropped

    @contextmanager
    def collected(self, level: int = logging.INFO) -> Iterator[Self]:
        """Take the lines of all loggers, our own from a level on, while the block runs."""
        root, level_before = logging.getLogger(), _log.level
        self._thread.start()
        root.addHandler(self._handler)
        _log.setLevel(level)
        try:
            yield self
        finally:
            _log.setLevel(level_before)
            root.removeHandler(self._handler)
            self._stop()

    def _write(self, output: "_Output") -> None:
        while (record := self._queue.get()) is not None:
            output.write(record)

    def _stop(self) -> None:
        """Write what waits, unless that takes too long: the reader may have gone."""
        with suppress(Full):
            self._queue.put(None, timeout=_LAST_WORDS)
            self._thread.join(_LAST_WORDS)


class _Handler(QueueHandler):
    """Puts lines into the queue without waiting, and says how many it could not."""

    def __init__(self, queue: Queue[logging.LogRecord | None]) -> None:
        super().__init__(queue)
        self._lines = queue
        self.dropped = 0
        self._told = 0

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Make it independent of what may change until it is written."""
        prepared = copy(record)  # other handlers get it as it is
        prepared.msg, prepared.args = record.getMessage(), None
        if record.exc_info:
            prepared.exc_text = record.exc_text or _PLAIN.formatException(record.exc_info)
            prepared.exc_info = None
        return prepared

    def enqueue(self, record: logging.LogRecord) -> None:
        """Put it into the queue, behind word of a gap if there is one."""
        try:
            if self._told < self.dropped:
                self._lines.put_nowait(_gap(self.dropped - self._told))
                self._told = self.dropped
            self._lines.put_nowait(record)
        except Full:
            self.dropped += 1


class _Output:
    """Writes to a descriptor.

    Not to `sys.stderr`, and not as a `logging.Handler`: both have locks that the end of the program
    waits for, and a thread that is stuck in here would hold them.
    """

    def __init__(self, descriptor: int, formatter: logging.Formatter) -> None:
        self._descriptor = descriptor
        self._formatter = formatter

    def write(self, record: logging.LogRecord) -> None:
        """Write one line; if its reader has gone, go on without."""
        rest = f"{self._line(record)}\n".encode(errors="backslashreplace")
        with suppress(OSError):
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]

    def _line(self, record: logging.LogRecord) -> str:
        try:
            return self._formatter.format(record)
        except Exception as error:  # noqa: BLE001  one strange line is no reason for having no log
            return f"a line of {record.name} can't be written: {error!r}"


_PLAIN = logging.Formatter()


def _gap(lines: int) -> logging.LogRecord:
    about = f"{lines} lines were dropped: they were not written fast enough"
    return logging.makeLogRecord(
        {"name": _log.name, "levelno": logging.WARNING, "levelname": "WARNING", "msg": about}
    )
