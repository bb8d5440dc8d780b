"""Our end of a worker's socket: one question at a time, one answer to each."""

import asyncio
from collections.abc import Callable
from typing import cast

from adaptive_batching.wire.frames import MAX_LENGTH, FrameDecoder, FrameTooLong, Part, encode

_CHUNK = 2**18  # bytes; as much as asyncio reads at once by itself


class RpcChannel(asyncio.BufferedProtocol):
    """Asks, and hands the answer to the caller that asked.

    Args:
        on_lost: Called once when the other end is gone or can't be understood.
        max_length: The longest answer that is taken (bytes).
    """

    def __init__(self, on_lost: Callable[[], None], max_length: int = MAX_LENGTH) -> None:
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._decoder = FrameDecoder(max_length)
        # one for all: malloc may ask the system for each of this size
        self._chunk = memoryview(bytearray(_CHUNK))
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[bytearray] | None = None
        self._ended: asyncio.Future[None] = self._loop.create_future()

    def ask(self, parts: list[Part]) -> asyncio.Future[bytearray]:
        """Send one payload; the future is of its answer, or of EOFError if none will come.

        It is of FrameTooLong if what came is longer than the longest answer.

        Raises:
            FrameTooLong: The payload is too long; nothing was sent.
        """
        pieces = encode(parts)
        if self._transport is None or self._transport.is_closing():
            answer = self._loop.create_future()
            answer.set_exception(EOFError())
            return answer
        self._transport.writelines(pieces)  # first: the other end need not wait for the rest
        self._answer = answer = self._loop.create_future()
        return answer

    def fail(self, error: Exception) -> bool:
        """Let the pending answer be this exception; False if it has come or none is expected."""
        answer, self._answer = self._answer, None
        if answer is None or answer.done():
            return False
        answer.set_exception(error)
        return True

    def close(self) -> None:
        """Drop the connection and what has not been sent yet; the other end sees it at once."""
        if self._transport is not None:
            self._transport.abort()

    async def ended(self, within: float) -> bool:
        """Wait for the end of the connection, at most so many seconds; returns whether it came."""
        await asyncio.wait([self._ended], timeout=within)
        return self._ended.done()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Called by asyncio."""
        return self._chunk

    def buffer_updated(self, nbytes: int) -> None:
        """Called by asyncio."""
        try:
            payloads = self._decoder.feed(self._chunk[:nbytes])
        except FrameTooLong as error:
            self.fail(error)
            self.close()
            return
        for payload in payloads:
            answer, self._answer = self._answer, None
            if answer is None:  # the handler writes to our socket
                self.close()
            elif not answer.done():
                answer.set_result(payload)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio."""
        self.fail(EOFError())
        self._ended.set_result(None)
        self._on_lost()
