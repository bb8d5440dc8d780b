"""A body in the pieces in which it was received."""

from collections.abc import Sequence
from io import BytesIO

_LARGE = 2**15  # bytes; a copy of more costs more than a piece of its own


class BodyPieces:
    """Keeps large pieces as they are, and puts small ones together: each takes room of its own."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._small = BytesIO()
        self._size = 0

    def write(self, piece: bytes) -> int:
        """Keep some more; returns how many bytes that are."""
        if len(piece) < _LARGE:
            self._small.write(piece)
        else:
            self._put_together()
            self._pieces.append(piece)
        self._size += len(piece)
        return len(piece)

    def tell(self) -> int:
        """Bytes, so far."""
        return self._size

    def gathered(self) -> Sequence[bytes]:
        """All that was written, in at least one piece."""
        self._put_together()
        return self._pieces or [b""]

    def _put_together(self) -> None:
        if self._small.tell():
            self._pieces.append(self._small.getvalue())
            self._small = BytesIO()
