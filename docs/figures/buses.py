"""Four workers over 80 ms: with `greedy` they run in one another's wake, with `cork` apart."""

import matplotlib.pyplot as plt
from style import CORK, GREEDY

from adaptive_batching.core import Limits
from adaptive_batching.simulation import Experiment, History, Server, poisson

WORKERS = 4
RATE = 0.5 * WORKERS * 64 / 8.2e-3  # half of what they can do, requests a second
BEGIN, END = 0.500, 0.580  # seconds

traffic = Experiment(poisson(RATE, END + 0.1, seed=1), Server(5e-3, 0.05e-3), Limits(64))
figure, charts = plt.subplots(2, sharex=True, figsize=(7.2, 3.8))
for chart, policy, color in zip(charts, ("greedy", "cork"), (GREEDY, CORK), strict=True):
    history = History()
    traffic.play(policy, WORKERS, history)
    for batch in history.batches:
        if batch.finished > BEGIN and batch.released < END:
            start, length = (batch.released - BEGIN) * 1e3, batch.duration * 1e3
            chart.barh(batch.worker, length, left=start, height=0.3 + batch.size / 100, color=color)
            chart.text(start + length / 2, batch.worker, str(batch.size), color="white",
                       ha="center", va="center", fontsize=7, clip_on=True)  # fmt: skip
    jobs = [job for job in history.jobs if BEGIN <= job.arrived < END]
    mean = sum(job.latency for job in jobs) / len(jobs) * 1e3
    chart.set(title=f"{policy}: {mean:.1f} ms on average", yticks=range(WORKERS), ylabel="worker")
    chart.set(xlim=(0, (END - BEGIN) * 1e3))
    chart.grid(visible=False, axis="y")
charts[-1].set_xlabel("ms; the numbers are items in a batch")
