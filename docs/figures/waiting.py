"""Is it worth waiting? Mean latency by load, with one worker and with four."""

import matplotlib.pyplot as plt
from style import CORK, GREEDY, WINDOW

from adaptive_batching.core import Limits
from adaptive_batching.simulation import Experiment, Server, poisson

LOADS = (0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
POLICIES = {"greedy": GREEDY, "window:5ms": WINDOW, "cork": CORK}

figure, charts = plt.subplots(1, 2, sharey=True)
for chart, workers in zip(charts, (1, 4), strict=True):
    for policy, color in POLICIES.items():
        means = []
        for load in LOADS:
            rate = load * workers * 64 / 8.2e-3
            arrivals = poisson(rate, 20_000 / rate, seed=1)
            row = Experiment(arrivals, Server(5e-3, 0.05e-3), Limits(64)).run(policy, workers)
            means.append((row.mean_latency or 0.0) * 1e3)
        width = 4 if policy == "greedy" else 1.5  # to be seen below `cork`, with one worker
        percent = [load * 100 for load in LOADS]
        chart.plot(percent, means, "o-", ms=3, lw=width, color=color, label=policy)
    chart.set(title=f"{workers} worker{'s' * (workers > 1)}", xlabel="% of the capacity")
charts[0].set(ylabel="mean latency, ms", ylim=(0, None))
charts[0].legend()
