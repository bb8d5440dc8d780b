"""Bytes in the pieces in which they were received: cut without being copied."""

from collections.abc import Iterable
from typing import TypeAlias

Pieces: TypeAlias = tuple[memoryview, ...]


def size_of(pieces: Pieces) -> int:
    """Bytes, all in all."""
    return sum(map(len, pieces))


def whole(pieces: Pieces) -> memoryview:
    """All of them in one, which is a copy if they are several."""
    return pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))


def cut(pieces: Pieces, sizes: Iterable[int]) -> list[Pieces]:
    """Cut them into parts of so many bytes each, which they have to have."""
    parts = []
    coming, piece = iter(pieces), memoryview(b"")
    for size in sizes:
        part, left = [], size
        while left:
            piece = piece or next(coming)
            part.append(piece[:left])
            left -= len(part[-1])
            piece = piece[len(part[-1]) :]
        parts.append(tuple(part))
    return parts
