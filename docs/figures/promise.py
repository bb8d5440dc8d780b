"""How many are answered within 25 ms, from an idle worker to twice what it can do."""

import matplotlib.pyplot as plt
from style import BENTOML, CORK, GREEDY, NEXUS, WINDOW

from adaptive_batching.core import Limits
from adaptive_batching.simulation import Experiment, Server, limit_of, poisson

CAPACITY = 64 / 8.2e-3  # requests a second
LOADS = (0.2, 0.5, 0.8, 0.9, 1.0, 1.1, 1.2, 1.5, 2.0)
# A wide line is drawn below a dashed one that has the same values: cork below nexus.
POLICIES = {
    "cork": (CORK, 6, "-"), "nexus": (NEXUS, 1.5, (0, (5, 3))), "bentoml": (BENTOML, 1.5, "-"),
    "greedy": (GREEDY, 6, "-"), "window:5ms": (WINDOW, 1.5, (0, (5, 3))),
}  # fmt: skip

cells = [
    Experiment(
        poisson(load * CAPACITY, 2.5, seed=1), Server(5e-3, 0.05e-3), Limits(64, 25e-3), warmup=0.5
    )
    for load in LOADS
]
figure, chart = plt.subplots()
percent = [load * 100 for load in LOADS]
for policy, (color, width, dash) in POLICIES.items():
    goodput = [100 * (cell.run(policy).goodput or 0.0) for cell in cells]
    alpha = 0.5 if width > 2 else 1
    chart.plot(percent, goodput, color=color, lw=width, ls=dash, alpha=alpha, label=policy)
best = [100 * (limit_of(cell).goodput or 0.0) for cell in cells]
chart.plot(percent, best, ":", color="black", lw=1.5, label="all arrivals known beforehand")
chart.set(xlabel="% of the capacity", ylabel="% of all requests within 25 ms", ylim=(0, 103))
figure.legend(loc="outside right center")
