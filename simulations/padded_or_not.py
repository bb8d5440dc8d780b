"""What if a sidecar is told that its server pads, and it doesn't, or the other way round?

Covers: share of requests answered within 100 ms by `cork`, with costs that are said to be padded,
said to add up, and not said at all, before a server that pads and before one that doesn't.

Poisson traffic of 12,000 requests, one worker, 4 ms + 20 us for each unit of a batch's cost, at
most 64 items; costs are lognormal with median 54 and sigma 0.9. The load is a share of what a
server that doesn't pad can do in batches of 16.

Answer: the smaller mistake is to say that it pads. A server that doesn't pad gains nothing from
costs.
"""

from math import exp

from drawn import drawn

from adaptive_batching.core import Costs, Limits
from adaptive_batching.simulation import (
    CostSeconds,
    DrawnCosts,
    Experiment,
    Lognormal,
    Server,
    poisson,
)

FIXED, PER_COST = 4e-3, 20e-6  # seconds, seconds for each unit of cost
MEDIAN, SIGMA = 54.0, 0.9
SAID = {"padded": Costs(padded=True), "added up": Costs(), "not said": None}


def in_time(load: float, costs: Costs | None, *, pads: bool) -> str:
    """The share of all requests that is answered in time."""
    rate = load / (FIXED / 16 + PER_COST * MEDIAN * exp(SIGMA**2 / 2))
    server = Server(FIXED, 0.0, costs=CostSeconds(PER_COST, padded=pads))
    arrivals = poisson(rate, 12_000 / rate, seed=1)
    drawn_costs = DrawnCosts(Lognormal(MEDIAN, SIGMA), seed=1)
    limits = Limits(64, 0.1, costs=costs)
    goodput = Experiment(arrivals, server, limits, costs=drawn_costs).run("cork").goodput
    assert goodput is not None
    return f"{goodput:10.1%}"


print("server       load |" + " |".join(f"{name:>10}" for name in SAID))
for pads, load in drawn([(pads, load) for pads in (True, False) for load in (0.5, 0.8, 1.1)]):
    cells = " |".join(in_time(load, costs, pads=pads) for costs in SAID.values())
    print(f"{'pads' if pads else 'does not pad':12} {load:4.0%} |{cells}")
