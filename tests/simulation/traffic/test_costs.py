"""Costs that are drawn."""

from itertools import islice
from statistics import median

import pytest

from adaptive_batching.simulation.traffic.costs import (
    Bimodal,
    DrawnCosts,
    Lognormal,
    parse_costs,
)


def drawn(law, number=4000, seed=0):
    return list(islice(DrawnCosts(law, seed), number))


def test_lognormal():
    """Half of the costs are below the median, and a sixth above it times e to the sigma."""
    costs = drawn(Lognormal(120.0, 0.8))
    assert median(costs) == pytest.approx(120.0, rel=0.05)
    assert sum(cost > 120.0 * 2.226 for cost in costs) == pytest.approx(0.159 * 4000, rel=0.15)


def test_cut():
    """What would cost more than the most costs that."""
    assert max(drawn(Lognormal(120.0, 0.8, 200.0))) == 200.0


def test_bimodal():
    """Two costs, one for a share."""
    costs = drawn(Bimodal(16.0, 320.0, 0.2))
    assert set(costs) == {16.0, 320.0}
    assert costs.count(320.0) == pytest.approx(800, rel=0.15)


def test_the_same_for_the_same_seed():
    """And others for another one."""
    law = Lognormal(120.0, 0.8)
    assert drawn(law, 8) == drawn(law, 8) != drawn(law, 8, seed=1)


@pytest.mark.parametrize(
    ("text", "costs"),
    [
        ("lognormal:120,0.8", DrawnCosts(Lognormal(120.0, 0.8))),
        ("lognormal:120,0.8,512", DrawnCosts(Lognormal(120.0, 0.8, 512.0))),
        ("bimodal:16,320,20%", DrawnCosts(Bimodal(16.0, 320.0, 0.2))),
        ("recorded", "recorded"),
        ("tokens", "tokens"),
    ],
)
def test_spelling(text, costs):
    """What it says can be read again."""
    assert parse_costs(text) == costs
    if isinstance(costs, DrawnCosts):
        assert str(costs) == f"costs {text}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "120",
        "lognormal:120",
        "lognormal:0,1",
        "lognormal:1,80",
        "lognormal:1,1,0",
        "bimodal:1,2,300%",
    ],
)
def test_misspelling(text):
    """A number is missing or impossible."""
    with pytest.raises(ValueError, match="expected"):
        parse_costs(text)
