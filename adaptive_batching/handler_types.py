"""What a class may look like that `@batched` decorates, in words that type checkers understand."""

from collections.abc import Coroutine, Sequence
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)


class Handler(Protocol[T, R_co]):
    """An instance of a class-based handler: built once per worker, then called with lists."""

    def __call__(self, items: list[T], /) -> Sequence[R_co] | Coroutine[Any, Any, Sequence[R_co]]:
        """Return one result for each item, in order; an exception may stand in an item's place."""


class Preprocessing(Protocol[T_contra, R_co]):
    """A handler that takes each item by itself before the batch: who fails there fails alone."""

    def preprocess(self, item: T_contra, /) -> Any:
        """Return what stands for the item in the batch."""

    def __call__(self, items: list[Any], /) -> Sequence[R_co] | Coroutine[Any, Any, Sequence[R_co]]:
        """As `Handler`'s."""


class Postprocessing(Protocol[T, R_co]):
    """A handler that takes each result by itself after the batch: who fails there fails alone."""

    def __call__(self, items: list[T], /) -> Sequence[Any] | Coroutine[Any, Any, Sequence[Any]]:
        """As `Handler`'s."""

    def postprocess(self, result: Any, /) -> R_co:
        """Return what the caller gets."""


class Processing(Protocol[T_contra, R_co]):
    """A handler that does both."""

    def preprocess(self, item: T_contra, /) -> Any:
        """Return what stands for the item in the batch."""

    def __call__(self, items: list[Any], /) -> Sequence[Any] | Coroutine[Any, Any, Sequence[Any]]:
        """As `Handler`'s."""

    def postprocess(self, result: Any, /) -> R_co:
        """Return what the caller gets."""
