"""What was learned of a noisy worker after 1 s: the line, and the batches that it comes from."""

import matplotlib.pyplot as plt
from style import CORK, LIMIT

from adaptive_batching.core import Limits, LinearLatency
from adaptive_batching.simulation import Experiment, History, Server, mmpp

server = Server(5e-3, 0.05e-3, jitter=0.08, pause_probability=0.02, pause=10e-3)
arrivals = mmpp(3000.0, 1.0, seed=1, rates=(1000.0, 7000.0), sojourns=(0.2, 0.1))
history = History()
Experiment(arrivals, server, Limits(64, 50e-3)).play("cork", 1, history)
latency = LinearLatency()
for batch in history.batches:
    latency.observe(batch.size, batch.duration)

figure, chart = plt.subplots()
sizes = [batch.size for batch in history.batches]
chart.plot(sizes, [batch.duration * 1e3 for batch in history.batches], ".", color=LIMIT, alpha=0.5,
           label="batches, some of which met a pause of the machine")  # fmt: skip
ends = (1, 64)
chart.plot(ends, [latency.predict(size) * 1e3 for size in ends], color=CORK, lw=2, label="learned")
chart.plot(ends, [server.mean(size) * 1e3 for size in ends], "--", color="black", lw=1,
           label="true mean, pauses included")  # fmt: skip
chart.set(xlabel="items in the batch", ylabel="ms", ylim=(0, None))
chart.legend()
