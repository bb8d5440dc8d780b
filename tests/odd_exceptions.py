"""Exceptions whose class tells nothing; a test file can't hold one, for pytest asks its classes."""

from typing import NoReturn


class Unnamed(type):
    """Raises whatever is asked of its classes."""

    def __getattribute__(cls, name: str) -> NoReturn:
        raise RuntimeError(name)


def of_an_odd_kind(message: str) -> Exception:
    """Make an exception of the class `OfAnOddKind`, of which nothing can be asked."""

    class OfAnOddKind(ValueError, metaclass=Unnamed):
        pass

    return OfAnOddKind(message)
