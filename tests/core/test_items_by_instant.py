"""How many items there are up to an instant, within one part in 8,192 of its distance."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptive_batching.core.queues.items_by_instant import ItemsByInstant

ORIGIN = 64.0
DISTANCES = st.floats(0.0, 1e6) | st.just(inf)


@given(st.lists(DISTANCES, max_size=30), st.integers(0, 30), DISTANCES)
def test_counts_are_those_of_a_plain_list(distances: list[float], known: int, asked: float) -> None:
    """All up to an instant are counted, and none that is further off by more than the rounding."""
    instants = [ORIGIN + each for each in distances]
    items = ItemsByInstant(ORIGIN, [(instant, 2) for instant in instants[:known]])
    for instant in instants[known:]:
        items.add(instant, 2)
    until = ORIGIN + asked  # rounded, as the instants are
    least = sum(2 for each in instants if each <= until)
    most = sum(2 for each in instants if each - ORIGIN <= (until - ORIGIN) * (1 + 1 / 4096))
    assert least <= items.until(until) <= most
    for instant in instants:
        items.add(instant, -2)
    assert items.until(inf) == 0


@pytest.mark.parametrize("scale", [2.0**-20, 2.0**20])
def test_no_count_hinges_on_how_long_a_second_is(scale: float) -> None:
    """A microsecond apart or days: the same counts. Ticks of a millisecond told 0 or 100 of 100."""
    items = ItemsByInstant(0.0)
    for number in range(100):
        items.add(number * scale, 1)
    assert [items.until(number * scale) for number in range(100)] == list(range(1, 101))


def test_what_is_before_the_origin_counts_as_it() -> None:
    """A job that came before the oldest one that waited when counting began."""
    items = ItemsByInstant(ORIGIN)
    items.add(ORIGIN - 1.0, 3)
    assert (items.until(ORIGIN - 1.0), items.until(ORIGIN)) == (0, 3)
