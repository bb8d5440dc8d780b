"""The body of a request, read within a limit of bytes and of seconds."""

import asyncio
from collections.abc import Callable, Sequence
from io import BytesIO

from aiohttp import HttpVersion11, hdrs, web

from adaptive_batching.marshal.http.body_pieces import BodyPieces
from adaptive_batching.marshal.http.error_responses import Rejected
from adaptive_batching.marshal.http.read_size import read_freely


def arrived_body(request: web.BaseRequest) -> bytes | None:
    """The body if all of it is here already, as it is for most; None if there is more to come.

    Raises:
        Rejected: It is compressed.
    """
    if "Content-Encoding" in request.headers:
        check_encoding(",".join(request.headers.getall("Content-Encoding")))
    return request.content.read_nowait() if request.content.is_eof() else None


async def arriving_body(
    request: web.BaseRequest, limit: int, patience: float, keep: Callable[[int], None] | None = None
) -> bytes:
    """Wait for the rest of a body.

    Args:
        request: Whose body it is.
        limit: Bytes after which no more is read.
        patience: Seconds it may take, all in all.
        keep: Told how many bytes have come, each time; it may refuse them.

    Returns:
        All of it; or more than `limit` bytes if it has more.

    Raises:
        Rejected: It took too long or is broken.
    """
    body = BytesIO()  # one copy of each chunk while the caches have it, and none at the end
    await _receive(request, body, limit, patience, keep)
    return body.getvalue()


async def arriving_pieces(
    request: web.BaseRequest, limit: int, patience: float, keep: Callable[[int], None] | None = None
) -> Sequence[bytes]:
    """As `arriving_body`, but what comes in large pieces is not copied; at least one piece."""
    body = BodyPieces()
    await _receive(request, body, limit, patience, keep)
    return body.gathered()


async def _receive(
    request: web.BaseRequest,
    body: BytesIO | BodyPieces,
    limit: int,
    patience: float,
    keep: Callable[[int], None] | None,
) -> None:
    content = request.content
    ask_for_body(request)
    # All that was announced is waited for: that reading pauses and goes on would cost a tenth.
    content.set_read_chunk_size(min(request.content_length or 0, limit))
    try:
        with read_freely(request.transport):
            async with asyncio.timeout(patience):
                while body.tell() <= limit and not content.at_eof():
                    # Without a name, which would keep what has come until there is more.
                    size = body.write(await _next_piece(request))
                    if keep is not None:
                        keep(size)
    except TimeoutError:
        raise Rejected(408, "body_timeout", closes=True) from None
    except web.RequestPayloadError:
        raise Rejected(400, "malformed", closes=True) from None


async def _next_piece(request: web.BaseRequest) -> bytes:
    """One piece as it was received; of a body in chunks, which may be tiny, all that is there."""
    if request.content_length is None:
        return await request.content.readany()
    piece, _ = await request.content.readchunk()
    return piece


def ask_for_body(request: web.BaseRequest) -> None:
    """Let a client that waits for that send its body; HTTP/1.0 has no word for it (RFC 9110, 15.2).

    Args:
        request: Whose body has not come yet.
    """
    waits = request.headers.get(hdrs.EXPECT, "").lower() == "100-continue"
    if waits and request.version >= HttpVersion11 and request.transport:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")


def check_encoding(codings: str) -> None:
    """See to it that a body is as it is: none is ever inflated.

    Raises:
        Rejected: It is compressed.
    """
    if any(coding.strip().lower() != "identity" for coding in codings.split(",")):
        raise Rejected(415, "unsupported_encoding", closes=True)


def too_large() -> Rejected:
    """What those hear who send, or announce, more than they may."""
    return Rejected(413, "body_too_large", closes=True)
