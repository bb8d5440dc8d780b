"""What one connection, and all bodies together, may cost.

`docs/reference/threat_model.md` says what each limit is against.
"""

from adaptive_batching.errors import QueueFull

HEAD = 32 * 2**10
"""Bytes of a whole head; as much as nginx takes, 4 x 8 KiB."""

HEADERS = 128
"""Headers of a request."""

READ = 16 * 2**10
"""Bytes that are read at once while heads may come: llhttp can't stop between two requests, so
this bounds what is parsed of a connection and waits for its turn."""

PIPELINED = 4
"""Requests that may wait for their turn on a connection before no more is read of it."""

BODY_READ = 256 * 2**10
"""Bytes that are read at once of a body."""

CHUNKED_READ = 64 * 2**10
"""Bytes that are read at once of a body in chunks, behind which further requests may stand."""

UNREAD = 64 * 2**10
"""Bytes that are written and not taken before a client is waited for; of TLS, loops hold as many
once more, and would take 512 KiB by themselves."""

IDLE = 15.0
"""Seconds for which a connection may ask nothing, or take nothing of its answer, and within which a
whole head has to arrive."""

LINGERING = 2.0
"""Seconds for which the rest of a refused body is read, so that its client receives the answer."""

HANDSHAKE = 3.0
"""Seconds for the handshake of TLS."""

LENGTH_DIGITS = 18
"""Digits of a Content-Length: llhttp takes 2**64-1 for a length, others for none."""


class MemoryLimit:
    """Refuses a body before it would not fit into memory any more.

    It counts the bodies that arrive, that wait and that run.

    Args:
        limit: Bytes of all bodies together.

    Attributes:
        held: Bytes that are kept now, or will be when what was announced has come.
    """

    __slots__ = ("_limit", "held")

    def __init__(self, limit: float) -> None:
        self.held = 0
        self._limit = limit

    def take(self, size: int) -> None:
        """Keep so many more bytes.

        Raises:
            QueueFull: They would be too many.
        """
        if self.held + size > self._limit:
            full = f"bodies of {self.held} bytes are in memory, and {size} bytes have come"
            raise QueueFull(f"{full}: max_queue_bytes is {self._limit}")
        self.held += size

    def give_back(self, size: int) -> None:
        """Keep so many bytes no longer."""
        self.held -= size
