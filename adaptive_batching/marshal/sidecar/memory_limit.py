"""How many bytes of requests are kept at a time: of those that arrive, that wait and that run."""

from adaptive_batching.errors import QueueFull


class HeldBytes:
    """Refuses a body before it would not fit into memory any more.

    Args:
        limit: Bytes of all bodies together.

    Attributes:
        held: Bytes that are kept now, or will be when what was announced has come.
    """

    __slots__ = ("_limit", "held")

    def __init__(self, limit: int) -> None:
        self.held = 0
        self._limit = limit

    def take(self, size: int) -> None:
        """Keep so many more.

        Raises:
            QueueFull: They would be too many.
        """
        if self.held + size > self._limit:
            raise QueueFull(f"{self.held} bytes of {self._limit} are held, and {size} have come")
        self.held += size

    def give_back(self, size: int) -> None:
        """Keep so many no longer."""
        self.held -= size


class Holding:
    """What one request keeps, all of which is given back at its end.

    Args:
        held: Where it is counted.

    Attributes:
        size: Bytes.
    """

    __slots__ = ("_held", "size")

    def __init__(self, held: HeldBytes) -> None:
        self.size = 0
        self._held = held

    def take(self, size: int) -> None:
        """Keep so many more.

        Raises:
            QueueFull: They would be too many.
        """
        self._held.take(size)
        self.size += size
