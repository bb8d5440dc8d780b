"""Frames on a blocking socket: the worker's end."""

import socket
from collections.abc import Iterator

from adaptive_batching.wire.frames import FrameDecoder, Part

_CHUNK = 2**18  # bytes; as much as asyncio reads at once


def payloads(stream: socket.socket) -> Iterator[bytearray]:
    """What comes, until the other end closes."""
    decoder = FrameDecoder()
    chunk = memoryview(bytearray(_CHUNK))  # one for all: allocating it took as long as reading
    while size := stream.recv_into(chunk):
        yield from decoder.feed(chunk[:size])


def send(stream: socket.socket, pieces: list[Part]) -> None:
    """Write the pieces of one frame, small ones at once."""
    if sum(map(len, pieces)) < _CHUNK:
        stream.sendall(b"".join(pieces))
        return
    for piece in pieces:
        stream.sendall(piece)
