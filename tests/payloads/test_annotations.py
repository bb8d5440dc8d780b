"""What a handler says about its items and results by its annotations."""

import re
from collections import deque
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, NamedTuple, Optional, TypeVar
from uuid import UUID

import msgspec
import numpy as np
import pydantic
import pytest
from numpy.typing import NDArray

from adaptive_batching.payloads.annotations import UNDECLARED, declared_types
from adaptive_batching.payloads.arrays.array_type import ArrayType
from adaptive_batching.payloads.arrays.columns import RowType

T = TypeVar("T")
Rows = Annotated[list[int], "counted"]


def lists(items: list[int]) -> list[str]: ...


async def awaited(items: Sequence[float]) -> Sequence[bytes]: ...


def awaitable(items: Iterable[dict[str, int]]) -> Awaitable[list[None]]: ...


def unsaid(items): ...


def half(items: list[int]): ...


def failing(items: list[int]) -> list[str | ValueError]: ...


def only_failing(items: list[int]) -> list[Exception]: ...


def optional(items: list[Optional[int]]) -> list[int | None]: ...  # noqa: UP045  also as it was


def generic(items: list[T]) -> list[T]: ...


def arrays(items: NDArray[np.int64]) -> NDArray[np.float32]: ...


def by_name(items: NDArray[np.int64]) -> dict[str, Any]: ...


def rows(items: list[int]) -> np.ndarray: ...


def anything(items: list[Any]) -> list[object]: ...


def bare(items: list) -> list: ...


def variadic(*items: int) -> list[int]: ...


def annotated(items: Rows) -> Rows: ...


class Stepped:
    def preprocess(self, text: str) -> int: ...

    def __call__(self, numbers: list[int]) -> list[float]: ...

    def postprocess(self, number: float) -> dict[str, float]: ...


class HalfStepped:
    def preprocess(self, text): ...

    def __call__(self, numbers: list[int]) -> list[float]: ...


@pytest.mark.parametrize(
    ("handler", "item", "result"),
    [
        (lists, int, str),
        (awaited, float, bytes),
        (awaitable, dict[str, int], type(None)),
        (unsaid, UNDECLARED, UNDECLARED),
        (half, int, UNDECLARED),
        (failing, int, str),
        (only_failing, int, UNDECLARED),
        (optional, int | None, int | None),
        (generic, UNDECLARED, UNDECLARED),
        (arrays, ArrayType(None, np.dtype("int64")), RowType(None, np.dtype("float32"))),
        (by_name, ArrayType(None, np.dtype("int64")), UNDECLARED),
        (rows, int, UNDECLARED),
        (anything, UNDECLARED, UNDECLARED),
        (bare, UNDECLARED, UNDECLARED),
        (variadic, UNDECLARED, int),
        (annotated, int, int),
        (Stepped, str, dict[str, float]),
        (HalfStepped, UNDECLARED, float),
        (sorted, UNDECLARED, UNDECLARED),
        (np.square, UNDECLARED, UNDECLARED),
    ],
    ids=lambda each: getattr(each, "__name__", str(each)),
)
def test_what_is_declared(handler, item, result):
    """The elements of the lists, without exceptions; of a class, what its steps take and return."""
    assert declared_types(handler) == (item, result)


class Fields(msgspec.Struct):
    x: int


class Pair(NamedTuple):
    x: int
    y: int


class Columns(pydantic.BaseModel):
    x: list[int]

    def __len__(self) -> int: ...


@dataclass
class Row:
    x: int


@pytest.mark.parametrize(
    ("hint", "such"),
    [
        (Fields, "list[Fields]"),
        (Row, "list[Row]"),
        (Pair, "list[Pair]"),
        (pydantic.create_model("Model", x=int), "list[Model]"),
        (Annotated[Fields, "one"], "list["),
        (Optional[list[int]], "list[int]"),  # noqa: UP045  also as it was
        (int | list[int], "list[int]"),
        (NDArray[np.float32] | None, "numpy.ndarray["),
        (tuple[int, str], "list[tuple[int, str]]"),
        (tuple[int, ...], "list[tuple[int, ...]]"),
        (tuple, "list[tuple]"),
        (np.float32, "list[float32]"),
        (Literal["a"], "list[typing.Literal['a']]"),
        (datetime, "list[datetime]"),
        (timedelta, "list[timedelta]"),
        (UUID, "list[UUID]"),
    ],
)
def test_one_value_is_no_list(hint, such):
    """As a batch or as its results it is refused at registration, with the form that is right."""
    for annotations in ({"items": hint}, {"return": hint}):

        def handler(items): ...

        handler.__annotations__ = annotations
        with pytest.raises(TypeError, match=re.escape(f"such as {such}")):
            declared_types(handler)


@pytest.mark.parametrize("hint", [Columns, list[int] | NDArray[np.int64], object, T, deque[int]])
def test_what_may_be_a_list(hint):
    """It is taken, and its elements are not validated."""

    def handler(items): ...

    handler.__annotations__ = {"items": hint, "return": hint}
    assert declared_types(handler) == (UNDECLARED, UNDECLARED)


def test_a_stage_that_takes_one_item():
    """Its annotations are the types."""
    assert declared_types(lists, takes_one=True) == (list[int], list[str])


def test_a_name_that_means_nothing():
    """It is told when the handler is registered, with what to do."""

    def handler(items: "list[Missing]") -> list[int]: ...  # noqa: F821

    with pytest.raises(TypeError, match=r"name 'Missing' is not defined: .* declare item="):
        declared_types(handler)
