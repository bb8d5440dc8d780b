"""How do the policies compare where it is hard: jitter, pauses, tight promises, bursts, overload?

Covers: the goodput of every policy in per cent of all requests; `cork` less the best of the others
in points; and, below capacity, the mean latency of `cork` against that of `greedy`.

Batches of 5 ms + 0.05 ms * n with a jitter of 0.1, of which one in 200 meets a pause of 10 ms; at
most 64 items. Bursts come at half the mean rate for 0.2 s on average, then at twice the mean rate
for 0.1 s. The same traffic and the same luck for all: 8,000 requests to learn from, 6,000 that
count, so that a point either way is luck.

Answer: with one worker all who shed by a prediction are alike. With four, releases that keep their
distance take a tenth off the mean latency and keep a tight promise, as `deferred` does near the
capacity only and `window` until it is reached. A start in overload is `cork`'s weak spot: until it
knows how much batches overrun, it lets some in that will be late.
"""

from drawn import drawn

from adaptive_batching.core import Limits
from adaptive_batching.simulation import Experiment, Row, Server, mmpp, poisson

SERVER = Server(5e-3, 0.05e-3, jitter=0.1, pause_probability=0.005, pause=10e-3)
CAPACITY = 64 / 8.2e-3  # requests a second and worker
LEARNING, COUNTED = 8_000, 6_000  # requests
OTHERS = (
    "greedy", "greedy+drop", "window:2ms", "aimd", "nexus", "deferred", "bentoml", "bentoml:0",
)  # fmt: skip
SETUPS = (
    ("steady", 1, 25e-3, (0.3, 0.6, 0.9, 1.0, 1.2)),
    ("bursts", 1, 25e-3, (0.3, 0.5, 0.7, 0.9, 1.2)),
    ("steady", 4, 25e-3, (0.3, 0.6, 0.9, 1.1)),
    ("steady", 4, 12e-3, (0.3, 0.6, 0.9, 1.1)),
    ("bursts", 4, 25e-3, (0.3, 0.5, 0.7, 0.9, 1.1)),
)


def experiment(traffic: str, workers: int, promise: float, load: float) -> Experiment:
    """One cell; the load is a share of the workers' capacity."""
    rate = load * workers * CAPACITY
    seconds = (LEARNING + COUNTED) / rate
    if traffic == "steady":
        arrivals = poisson(rate, seconds, seed=1)
    else:
        spells = (0.2, 0.1)  # seconds
        arrivals = mmpp(rate, seconds, seed=1, rates=(rate / 2, rate * 2), sojourns=spells)
    return Experiment(arrivals, SERVER, Limits(64, promise), warmup=LEARNING / rate)


def slower(cork: Row, greedy: Row, load: float) -> str:
    """How much longer `cork` takes than `greedy` on average, where greedy serves everybody."""
    if load >= 1.0 or not (cork.mean_latency and greedy.mean_latency):
        return "     -"
    return f"{cork.mean_latency / greedy.mean_latency - 1:+6.1%}"


print("workers within load |   cork ahead   mean |" + "".join(f"{name:>12}" for name in OTHERS))
for traffic, workers, promise, loads in SETUPS:
    print(f"{traffic}")
    for load in drawn(loads):
        cell = experiment(traffic, workers, promise, load)
        cork, *others = (cell.run(policy, workers) for policy in ("cork", *OTHERS))
        shares = [(row.goodput or 0.0) * 100 for row in others]
        share = (cork.goodput or 0.0) * 100
        ahead = f"{share:6.2f} {share - max(shares):+5.2f} {slower(cork, others[0], load)}"
        condition = f"{workers:7} {promise * 1e3:3.0f} ms {load:4.0%}"
        print(f"{condition} | {ahead} |" + "".join(f"{share:12.2f}" for share in shares))
