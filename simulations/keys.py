"""What do batch keys cost, and who serves them best?

Covers: the goodput in per cent of all requests, by number of keys, workers and load; that of `cork`
if all of them could share batches; and that of the key which fares worst with it.

Batches of 5 ms + 0.05 ms * n with a jitter of 0.1, at most 64 items, within 25 ms. Eight or 64
keys, of which all come alike or, by Zipf's law with exponent 1.2, the first far more often. The
load is a share of what the workers could do without keys. For each worker 200 requests to learn
from and 800 that count: two points either way are luck.

Answer: each key needs batches of its own, as often as the promise is long, whether one request
waits or sixty: for one worker eight keys are too many at a fifth of the load. While all can be in
time the earliest deadline goes first, and no key is worse off than another. When they can't, that
order is the worst: each batch leaves at the last moment, with the few that have come. `cork` then
takes what is worth most for a second of a worker and can least be put off, and answers up to four
times as many; that the rarest keys get next to nothing is the price.
"""

from drawn import drawn

from adaptive_batching.core import Limits
from adaptive_batching.simulation import Experiment, Lots, Row, Server, poisson

SERVER = Server(5e-3, 0.05e-3, jitter=0.1)
CAPACITY = 64 / 8.2e-3  # requests a second and worker
LEARNING, COUNTED = 200, 800  # requests for each worker
TRAFFIC = (("8 alike", Lots(8)), ("8 Zipf", Lots(8, 1.2)), ("64 Zipf", Lots(64, 1.2)))
OTHERS = ("greedy", "greedy+drop")
SEEN = 20  # requests of a key, from which its share of answers says something


def experiment(keys: Lots | None, workers: int, load: float) -> Experiment:
    """One cell."""
    rate = load * workers * CAPACITY
    warmup = LEARNING * workers / rate
    arrivals = poisson(rate, (LEARNING + COUNTED) * workers / rate, seed=1)
    return Experiment(arrivals, SERVER, Limits(64, 25e-3), keys=keys, warmup=warmup)


def share(row: Row) -> float:
    """In per cent."""
    return (row.goodput or 0.0) * 100


def worst(row: Row) -> float:
    """The goodput of the key that fares worst, in per cent."""
    return min(key.goodput for key in (row.keys or {}).values() if key.requests >= SEEN) * 100


print("keys    workers load | no keys |  cork worst |" + "".join(f"{name:>12}" for name in OTHERS))
for name, keys in TRAFFIC:
    for workers in (1, 2, 4):
        for load in drawn((0.2, 0.5, 1.0, 2.0)):
            together = share(experiment(None, workers, load).run("cork", workers))
            cell = experiment(keys, workers, load)
            cork = cell.run("cork", workers)
            others = "".join(f"{share(cell.run(other, workers)):12.1f}" for other in OTHERS)
            ours = f"{together:7.1f} | {share(cork):5.1f} {worst(cork):5.1f}"
            print(f"{name:9} {workers:5} {load:4.0%} | {ours} |{others}")
