"""How much is read from a connection at once: little, until somebody waits for what comes.

What has been read of a request counts as held when its turn has come, and of all connections that
can be read the bytes are read before that.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# Bytes: what comes in one go needs no task of aiohttp's, and less in one go costs small images and
# embeddings a third of their requests a second. Twice as many come before the task has its turn;
# `read_bufsize` is as large, so that reading does not pause yet.
_AT_FIRST = 2**17
_AT_ONCE = 2**18  # bytes; as asyncio does without us


def read_little(transport: Any) -> None:
    """Let little be read from a new connection at once; uvloop and TLS do as they please."""
    if hasattr(transport, "max_size"):
        transport.max_size = _AT_FIRST


@contextmanager
def read_freely(transport: Any) -> Iterator[None]:
    """Let as much be read as there is, for it is taken as it comes; None if there is nobody."""
    if not hasattr(transport, "max_size"):
        yield
        return
    before, transport.max_size = transport.max_size, _AT_ONCE
    try:
        yield
    finally:
        transport.max_size = before  # which is not ours to say in somebody else's application
