"""Medians of what estimators have seen."""

import statistics

import pytest

from adaptive_batching.core.estimators.medians import median, median_low


@pytest.mark.parametrize("values", [[3.0], [2.0, 1.0], [0.3, 0.1, 0.2], [4.0, 0.1, 0.7, 0.2]])
def test_they_are_those_of_statistics(values: list[float]) -> None:
    """The medians are the same floats as the slower module's, be the values odd or even."""
    assert median(values) == statistics.median(values)
    assert median_low(values) == statistics.median_low(values)
