"""Durations as people write them."""

import pytest

from adaptive_batching.units import counted, format_duration, parse_bytes, parse_duration


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        (0.0, "0 s"),
        (2.5e-10, "0.25 ns"),
        (3e-7, "300 ns"),
        (0.9996e-3, "1 ms"),
        (2.3e-3, "2.3 ms"),
        (0.9996, "1 s"),
        (-25e-3, "-25 ms"),
        (100.0, "100 s"),
        (999.4, "999 s"),
        (999.5, "16.7 min"),
        (3502.0, "58.4 min"),
        (7200.0, "2 h"),
        (1e9, "277,778 h"),
    ],
)
def test_a_duration_for_people(seconds, written):
    """Three digits at the most, never a power of ten."""
    assert format_duration(seconds) == written


@pytest.mark.parametrize("written", ["300ns", "2.3ms", "100s", "16.7min", "2h"])
def test_what_is_written_can_be_read(written):
    """In the same unit."""
    assert format_duration(parse_duration(written)).replace(" ", "") == written


def test_one_and_many():
    """A thing is one, everything else are many."""
    assert [counted(each, "request") for each in (0, 1, 2000)] == [
        "0 requests", "1 request", "2,000 requests",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "size"),
    [("1", 1), ("1000", 1000), ("64KiB", 65536), (" 8 MiB ", 2**23), ("1GiB", 2**30)],
)
def test_bytes_are_read(text, size):
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5MiB", "8MB", "MiB", "1" * 17, "True"])
def test_what_is_no_number_of_bytes(text):
    """The message shows how it is written."""
    with pytest.raises(ValueError, match="such as 1000, 64KiB or 8MiB, got"):
        parse_bytes(text)
