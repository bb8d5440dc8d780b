"""One end of the socket between a service and a front: messages in frames."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import msgspec

from adaptive_batching.wire.frames import FrameDecoder, Part, encode

_encode = msgspec.msgpack.Encoder().encode


class Link(asyncio.Protocol):
    """Sends what is said within one turn of the loop in one piece.

    Args:
        kinds: The types of messages that come.
        on_message: Called with each.
        on_lost: Called once when the other end has gone.
    """

    def __init__(
        self, kinds: Any, on_message: Callable[[Any], None], on_lost: Callable[[], None]
    ) -> None:
        self._decode = msgspec.msgpack.Decoder(kinds).decode
        self._on_message = on_message
        self._on_lost = on_lost
        self._frames = FrameDecoder()
        self._unsent: list[Part] = []
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        self._transport = cast("asyncio.WriteTransport", transport)  # uvloop's is none by name

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        for payload in self._frames.feed(data):
            self._on_message(self._decode(payload))

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio."""
        self._transport = None
        self._on_lost()

    def send(self, message: msgspec.Struct) -> None:
        """Say something, soon; nobody may be there any more to hear it."""
        if self._transport is None:
            return
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent += encode([_encode(message)])

    def close(self) -> None:
        """Send what was said, and hang up."""
        if self._transport is not None:
            self._flush()
            self._transport.close()

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        if self._transport is not None and unsent:
            self._transport.write(b"".join(unsent))
