"""How fast a worker is beside its peers."""

from math import log

import pytest

from adaptive_batching.core.estimators.pace import Pace


@pytest.mark.parametrize(("slower", "matters"), [(1.08, False), (1.12, True), (1.18, True)])
def test_what_differs_by_a_tenth_matters(slower: float, *, matters: bool) -> None:
    """However sure it is, a smaller difference is not worth any other decision."""
    pace = Pace()
    for _ in range(200):
        pace.observe(log(slower))
    assert pace.differs(0.0) is matters
