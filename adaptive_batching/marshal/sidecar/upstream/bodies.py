"""Bodies to model servers and from them: nothing is copied that need not be."""

from collections.abc import AsyncIterator, Iterator

import aiohttp

from adaptive_batching.errors import UpstreamTooLarge
from adaptive_batching.wire.exchange import Message
from adaptive_batching.wire.pieces import Pieces

_PART = 2**18  # bytes
_SMALL = 2**14  # bytes; to write more costs less than a copy of it


def outgoing(message: Message, size: int) -> bytes | AsyncIterator[bytes | memoryview]:
    """What a request is sent with; `size` is its bytes, all in all.

    What is large goes by parts: of all that the socket does not take at once asyncio makes a copy.
    """
    if size > _PART:
        return _parts(message)
    return b"".join([message.body, *message.tail]) if message.tail else message.body


async def _parts(message: Message) -> AsyncIterator[bytes | memoryview]:
    for piece in _gathered(message.pieces):
        for begin in range(0, len(piece), _PART):
            yield piece[begin : begin + _PART]


def _gathered(pieces: Pieces) -> Iterator[bytes | memoryview]:
    """Put small pieces of bytes together, for each piece is written by itself."""
    small: list[memoryview] = []
    size = 0
    for piece in pieces:
        if small and (len(piece) >= _SMALL or size + len(piece) > _PART):
            yield b"".join(small)
            small, size = [], 0
        if len(piece) >= _SMALL:
            yield piece
        else:
            small.append(piece)
            size += len(piece)
    yield b"".join(small)


async def incoming(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """The whole body of an answer.

    Raises:
        UpstreamTooLarge: It has more than `limit` bytes.
    """
    if (response.content_length or 0) <= limit:
        chunks: list[bytes] = []
        size = 0
        async for chunk in response.content.iter_any():
            chunks.append(chunk)
            size += len(chunk)
            if size > limit:
                break
        else:
            return b"".join(chunks)
    response.close()
    raise UpstreamTooLarge(
        f"expected an answer of at most {limit} bytes from {response.url.origin()}"
    )
