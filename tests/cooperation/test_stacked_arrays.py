"""Threads whose handler takes its batch as arrays."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, TypedDict

import numpy as np
import pytest
from numpy.typing import NDArray

from adaptive_batching import Padded, Shape, cooperative
from adaptive_batching.errors import BatchFunctionError, InvalidItem

Vector = Annotated[NDArray[np.float32], Shape(2)]


class HidesItsClass(Exception):
    @property
    def __class__(self) -> Any:
        raise RuntimeError


class Sentence(TypedDict):
    """The arrays of an item."""

    ids: Annotated[NDArray[np.int64], Shape(None), Padded()]
    weight: Annotated[NDArray[np.float32], Shape()]


def test_a_batch_is_one_array() -> None:
    """Callers pass and get their own rows, and one whose item is wrong fails alone."""
    seen: list[Any] = []

    def doubled(x: Vector) -> NDArray[np.float32]:
        seen.append(x.shape)
        return 2 * x

    queue = cooperative(doubled)
    handles = [queue.submit(np.full(length, 3.0, np.float32)) for length in (2, 3, 2)]
    np.testing.assert_array_equal(handles[0].result(), [6.0, 6.0])
    with pytest.raises(InvalidItem, match=r"expected shape \(2\), got \(3\)"):
        handles[1].result()
    np.testing.assert_array_equal(handles[2].result(), [6.0, 6.0])
    rows = queue.call_many([np.ones(2, np.float32)] * 3)
    np.testing.assert_array_equal(rows, np.full((3, 2), 2.0))
    assert seen == [(2, 2), (3, 2)]


def test_arrays_by_name_are_padded(threads: ThreadPoolExecutor) -> None:
    """The handler is told their lengths."""

    def means(x: Sentence, lengths: dict[str, NDArray[np.int64]]) -> NDArray[np.float64]:
        return x["ids"].sum(axis=1) / lengths["ids"] * x["weight"]

    queue = cooperative(means)
    items = [{"ids": np.arange(n + 1), "weight": np.float32(2)} for n in range(16)]
    assert list(threads.map(queue.call, items)) == [float(n) for n in range(16)]


def test_unlike_items_go_in_calls_of_their_own() -> None:
    """What raises over one shape fails its items alone."""

    def inverse(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.linalg.inv(x)

    queue = cooperative(inverse)
    good, bad = queue.submit(np.eye(2) * 2), queue.submit(np.ones((3, 3)))
    np.testing.assert_array_equal(good.result(), np.eye(2) / 2)
    with pytest.raises(np.linalg.LinAlgError):
        bad.result()


def test_an_error_that_hides_its_class_reaches_its_thread(threads: ThreadPoolExecutor) -> None:
    """Raised or returned, and beside other shapes: nobody waits for ever."""

    def odd(x: NDArray[np.float64]) -> NDArray[np.float64]:
        if len(x[0]) == 3:
            raise HidesItsClass("odd")
        return x.sum(axis=1)

    queue = cooperative(odd)
    handles = [queue.submit(np.ones(size)) for size in (2, 3, 2)]
    assert [handles[0].result(), handles[2].result()] == [2.0, 2.0]
    with pytest.raises(BatchFunctionError, match="HidesItsClass that hides its class"):
        handles[1].result()
    returning = cooperative(lambda items: [HidesItsClass("odd") for _ in items])
    with pytest.raises(BatchFunctionError, match="HidesItsClass that hides its class"):
        returning.call(1)


def _ambiguous(x: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    return x


def _no_list(first: list[int], second: int) -> list[int]:
    return first


@pytest.mark.parametrize(
    ("handler", "message"),
    [
        (_ambiguous, "expected what one item is of the arrays to stack"),
        (_no_list, r"expected a handler of \(items\)"),
    ],
)
def test_mistakes(handler: Callable[..., Any], message: str) -> None:
    """They are found where the queue is made."""
    with pytest.raises(TypeError, match=message):
        cooperative(handler)


@pytest.fixture
def threads() -> Any:
    """Eight of them."""
    with ThreadPoolExecutor(8) as pool:
        yield pool
