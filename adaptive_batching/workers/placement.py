"""Where a handler runs, in the words of the public API: the kinds inside this process."""

from dataclasses import dataclass
from typing import ClassVar

from adaptive_batching.units import is_whole_number


class Placement:
    """Where the batches of a handler run: one of the classes that `workers=` takes.

    Attributes:
        builds_handlers: Whether its workers are started with the handler that they run.
    """

    __slots__ = ()
    builds_handlers: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Tasks(Placement):
    """On the event loop, for async handlers that wait for something else.

    Attributes:
        count: Batches at a time.
    """

    count: int = 1

    def __post_init__(self) -> None:
        check_count(self.count)


@dataclass(frozen=True, slots=True)
class Threads(Placement):
    """In threads, for handlers that release the interpreter lock: NumPy, PyTorch, blocking clients.

    Attributes:
        count: Threads, each of which runs one batch at a time.
    """

    count: int = 1

    def __post_init__(self) -> None:
        check_count(self.count)


def check_count(count: object, of: str = "workers: ") -> None:
    """See whether there can be so many workers; `of` names the setting in front of the message.

    Raises:
        ValueError: It is no number, or less than 1.
    """
    if not (is_whole_number(count) and count >= 1):
        msg = f"{of}expected a count of at least 1, got {count!r}"
        raise ValueError(msg)
