"""What a handler may return."""

from collections import deque
from typing import NamedTuple

import numpy as np
import pytest

from adaptive_batching.errors import BatchFunctionError
from adaptive_batching.workers.handler.results import check_results


class Pair(NamedTuple):
    """What a model returns at once."""

    labels: str
    scores: str


@pytest.mark.parametrize("value", [[1, 2], range(1, 3), deque([1, 2]), np.array([1, 2])])
def test_sequences_and_arrays(value):
    """Anything with an order and a length will do."""
    assert list(check_results(value, 2)) == [1, 2]


def test_an_array_becomes_its_rows():
    """Each caller gets a row."""
    rows = check_results(np.eye(2), 2)
    assert [row.tolist() for row in rows] == [[1, 0], [0, 1]]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, "NoneType"),
        ((["a", "b"], ["c", "d"]), "tuple"),  # two callers would get one list each
        (Pair("a", "b"), "Pair"),
        ("ab", "str"),
        (b"ab", "bytes"),
        ({1: 2, 3: 4}, "dict"),
        ({1, 2}, "set"),
        ((item for item in "ab"), "generator"),
        (np.array(3), "ndarray"),
    ],
)
def test_everything_else_is_named(value, kind):
    """The message says what came instead."""
    with pytest.raises(BatchFunctionError, match=f"expected a list of 2 results, got {kind}"):
        check_results(value, 2)


class Boast(list):
    """Says that it is longer than it is."""

    def __len__(self):
        return 2


def test_a_list_that_lies():
    """What counts is what it holds: some member of the batch would get nothing."""
    with pytest.raises(BatchFunctionError, match="got 1"):
        check_results(Boast([1]), 2)


def test_wrong_length():
    """The message says how many were expected and how many came."""
    with pytest.raises(BatchFunctionError, match="expected 3 results for a batch of 3, got 2"):
        check_results([1, 2], 3)
