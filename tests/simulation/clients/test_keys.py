"""Keys by lot come as often as they should, and the same ones again."""

from collections import Counter
from itertools import islice

import pytest

from adaptive_batching.simulation.clients.keys import Lots, parse_keys


def counted(lots, number=40_000):
    return Counter(islice(lots, number))


def test_alike():
    """Each of four comes a quarter of the times."""
    counts = counted(Lots(4))
    assert sorted(counts) == [0, 1, 2, 3]
    assert all(count == pytest.approx(10_000, rel=0.05) for count in counts.values())


def test_zipf():
    """The second comes half as often as the first, the third a third as often."""
    counts = counted(Lots(8, 1.0))
    assert counts[0] / counts[1] == pytest.approx(2.0, rel=0.05)
    assert counts[0] / counts[2] == pytest.approx(3.0, rel=0.05)


def test_the_same_lots_each_time():
    """For the same seed; every policy meets the same keys."""
    first, again, other = (list(islice(Lots(8, seed=seed), 100)) for seed in (1, 1, 2))
    assert first == again != other


def test_spellings():
    """As people type them."""
    assert parse_keys("recorded") == "recorded"
    assert parse_keys("8") == Lots(8)
    assert parse_keys("zipf:8") == Lots(8, 1.0)
    assert parse_keys("zipf:8:1.5") == Lots(8, 1.5)


@pytest.mark.parametrize(
    "text", ["", "eight", "8:2", "zipf", "zipf:", "zipf:8:", "-1", "0", "99999"]
)
def test_misspellings(text):
    """Refused with what was expected and what came."""
    with pytest.raises(ValueError, match=r"expected .*, got"):
        parse_keys(text)
