"""How many are answered within 25 ms, from an idle worker to twice what it can do."""

import matplotlib.pyplot as plt
from style import BENTOML, CORK, GREEDY, LIMIT, NEXUS, WINDOW

from adaptive_batching.core import Limits
from adaptive_batching.simulation import Experiment, Server, limit_of, poisson

CAPACITY = 64 / 8.2e-3  # requests a second
LOADS = (0.2, 0.5, 0.8, 0.9, 1.0, 1.1, 1.2, 1.5, 2.0)
POLICIES = {
    "greedy": GREEDY, "window:5ms": WINDOW, "bentoml": BENTOML, "nexus": NEXUS, "cork": CORK,
}  # fmt: skip

cells = [
    Experiment(
        poisson(load * CAPACITY, 2.5, seed=1), Server(5e-3, 0.05e-3), Limits(64, 25e-3), warmup=0.5
    )
    for load in LOADS
]
figure, chart = plt.subplots()
percent = [load * 100 for load in LOADS]
best = [100 * (limit_of(cell).goodput or 0.0) for cell in cells]
chart.plot(percent, best, "--", color=LIMIT, label="who knows all arrivals beforehand")
for policy, color in POLICIES.items():
    goodput = [100 * (cell.run(policy).goodput or 0.0) for cell in cells]
    width = 4 if policy in {"greedy", "nexus"} else 1.5  # to be seen below those that do as well
    chart.plot(percent, goodput, "o-", ms=3, lw=width, color=color, label=policy)
chart.set(xlabel="% of the capacity", ylabel="% of all requests within 25 ms", ylim=(0, 103))
chart.legend(loc="lower left")
