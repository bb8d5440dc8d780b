"""Writes what really happened to a file that the simulator replays and `fit` learns from."""

import atexit
import gzip
import logging
import secrets
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import blake2b
from itertools import groupby
from math import inf, isnan
from operator import attrgetter
from pathlib import Path
from typing import BinaryIO, Self

from adaptive_batching.core import RECORDING, Batch, BatchRecord, Job, JobOutcome
from adaptive_batching.instrumentation.rotation import rotated

_BLOCK = 4096  # rows that are compressed together: some 250 KB, which shrink to a fifth
_PATIENCE = 10.0  # seconds after which a smaller block will do
_MOST_BLOCKS = 64  # waiting for the disk: 16 MB
_log = logging.getLogger("adaptive_batching")


class Recorder:
    """Observes one dispatcher and keeps a row for each request: no payload, keys only as hashes.

    Rows are made on the event loop, a microsecond each: in a thread they would hold the
    interpreter's lock for milliseconds at a time. Compressing and writing, which do not need the
    lock, happen in a thread; what a slow disk can't take is dropped and counted. Each block is a
    gzip member of its own, so that after a crash the file is intact up to the last one.

    Args:
        path: What it writes, compressed if its name ends in `.gz`; what is there already is
            renamed, see `rotated`.
        clock: Seconds, the dispatcher's; rows count from the recorder's beginning.
    """

    def __init__(self, path: str | Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.path = Path(path)
        self._zero = clock()
        self._file: BinaryIO | None = None
        self._ended = False
        self._rows: list[str] = []
        self._batches = 0
        self._flushed = -inf
        self._skipped = 0
        self._failed = 0
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="recorder")
        self._writing: deque[Future[None]] = deque()
        self._salt = secrets.token_bytes(16)  # so that hashing guesses finds no keys

    def __repr__(self) -> str:
        return f"<Recorder {self.path} batches={self._batches} dropped={self.dropped}>"

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def dropped(self) -> int:
        """Rows that are not in the file, because the disk was too slow or said no."""
        return self._skipped + self._failed

    def open(self) -> None:
        """Create the file; the first row does it otherwise, and the program's end closes it.

        Not the constructor: worker processes import the module that makes a recorder, too.

        Raises:
            OSError: The file can't be written.
        """
        head = self._packed(f"{RECORDING}\n")
        self._file = rotated(self.path, empty=len(head))
        self._file.write(head)
        self._file.flush()
        atexit.register(self.close)

    def batch_ended(self, batch: Batch, record: BatchRecord) -> None:
        """Number it; its members follow."""
        self._batches += 1

    def jobs_ended(
        self, jobs: Sequence[Job], outcome: JobOutcome, now: float, batch: BatchRecord | None
    ) -> None:
        """Keep a row of each."""
        zero = self._zero
        ran = ",,," if batch is None else f"{self._batches},{_of(batch)}"
        ran = f"{outcome.value},{ran}\n"
        for key, alike in groupby(jobs, attrgetter("key")):  # one in a batch; none is kept
            end = f"{_hash(key, self._salt)},{ran}"
            self._rows += [
                f"{job.arrived - zero:.6f},{job.size},{_cost(job)},{now - job.arrived:.6f},{end}"
                for job in alike
            ]
        if len(self._rows) >= _BLOCK or now >= self._flushed + _PATIENCE:
            self._flushed = now
            self._flush()

    def close(self) -> None:
        """Write what is left, and wait until it is written."""
        atexit.unregister(self.close)
        self._writer.shutdown()
        if self._file is None or self._ended:
            self._skipped += len(self._rows)
        else:
            if self._rows:
                self._write(self._file, self._rows)
            self._file.close()
        self._rows = []
        self._ended = True
        if self.dropped:
            _log.warning("%s: %d rows were dropped", self.path, self.dropped)

    def _flush(self) -> None:
        rows, self._rows = self._rows, []
        if self._file is None and not self._ended:
            try:
                self.open()
            except OSError:
                _log.exception("nothing is recorded")
                self._ended = True
        while self._writing and self._writing[0].done():
            self._writing.popleft()
        if self._file is None or self._ended or len(self._writing) >= _MOST_BLOCKS:
            self._skipped += len(rows)
        else:
            self._writing.append(self._writer.submit(self._write, self._file, rows))

    def _packed(self, text: str) -> bytes:
        plain = text.encode()
        return gzip.compress(plain, compresslevel=4) if self.path.suffix == ".gz" else plain

    def _write(self, file: BinaryIO, rows: Sequence[str]) -> None:
        try:
            file.write(self._packed("".join(rows)))
            file.flush()
        except OSError:
            if not self._failed:
                _log.exception("%s: what can't be written is dropped", self.path)
            self._failed += len(rows)


def _of(batch: BatchRecord) -> str:
    return f"{batch.size},{batch.duration:.6f},{batch.reason.value}"


def _cost(job: Job) -> str:
    """What it costs; empty if it was refused before that was known."""
    return "" if isnan(job.cost) else f"{job.cost:.9g}"


def _hash(key: Hashable, salt: bytes) -> str:
    """Tells keys apart, and nothing more; empty for no key."""
    return "" if key is None else blake2b(repr(key).encode(), digest_size=6, key=salt).hexdigest()
