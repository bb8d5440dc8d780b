"""Durations by size that are no straight line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptive_batching.simulation.servers.curves import Padded, Table, parse_buckets, parse_table
from adaptive_batching.simulation.servers.servers import Server, parse_server


def test_a_table_is_right_at_its_points():
    """Straight lines between them and beyond the last; level before the first."""
    table = Table(((2, 4.0), (4, 6.0), (8, 7.0)))
    assert [table(size) for size in (1, 2, 3, 4, 6, 8, 12)] == [4, 4, 5, 6, 6.5, 7, 8]


def test_a_table_of_one_point():
    """The same for every size."""
    assert Table(((1, 3.0),))(50) == 3.0


@given(st.dictionaries(st.integers(1, 100), st.floats(0, 1e6), min_size=1), st.integers(1, 300))
def test_no_table_goes_below_nothing(points, size):
    """Even where its last line falls."""
    table = Table(tuple(sorted(points.items())))
    assert table(size) >= 0
    if size in points:
        assert table(size) == pytest.approx(points[size], abs=1e-9 * max(points.values()))


def test_padding():
    """A batch takes what the next bucket takes; beyond the last it is itself."""
    padded = Padded(float, (1, 8, 16))
    assert [padded(size) for size in (1, 2, 8, 9, 16, 17)] == [1, 8, 8, 16, 16, 17]


def test_a_curve_serves():
    """With the noise of any server."""
    server = parse_server("1:5ms,64:8ms")
    assert server.service()(64) == 8e-3
    assert Server(0.0, 0.0, 0.1, curve=server.curve).service(1)(64) != 8e-3
    assert parse_server("5ms+1ms") == Server(5e-3, 1e-3)


def test_spellings():
    """As people type them."""
    assert parse_table("1:5ms, 64:8ms").points == ((1, 5e-3), (64, 8e-3))
    assert parse_buckets("8, 16") == (8, 16)
    assert parse_buckets("pow2")[:4] == (1, 2, 4, 8)


@pytest.mark.parametrize(
    "text", ["", "1", "5ms", "1:5", "a:5ms", "2:1ms,1:2ms", "1:1ms,1:1ms", "0:1ms", "1:5ms,"]
)
def test_misspelt_tables(text):
    """Refused with what was expected and what came."""
    with pytest.raises(ValueError, match="expected"):
        parse_table(text)


@pytest.mark.parametrize("text", ["", "a", "8,4", "8,8", "0,4", "-1", "8,"])
def test_misspelt_buckets(text):
    """Refused with what was expected and what came."""
    with pytest.raises(ValueError, match="expected"):
        parse_buckets(text)
