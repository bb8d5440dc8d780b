"""What does it gain to tell the scheduler what each item costs, where batches are padded?

Covers: goodput in per cent of all requests and mean latency in ms of `cork` that knows no costs
(fifo), of `cork` that has a batch key for each doubling of the cost and knows none (octaves), of
`cork` that knows the costs (costs), and of `greedy` that knows none; by what costs add to goodput
(points) and to the mean (only where both answer 99 % in time), with 95 % intervals over three
seeds. Beside them the same for the simplest queue that is sorted by cost (sorted): a free worker
takes the oldest request with its neighbours, up to a full batch, and requests that would be late in
it are shed. And the goodput that a clairvoyant can't pass (bound): full batches without padding,
the cheapest requests first. Neither of these two meets jitter. Then the capacity, the largest rate
with 99 % in time, in times that of fifo, beside what was asked for, and that of full batches
without padding.

A batch takes 4 ms + 1.2 us * items * largest cost, with a jitter of 0.02, at most 64 items, within
100 ms. Costs are lognormal with a median of 45, cut at 2,048, or 16 for four requests in five and
320 for the others. The load is a share of what full batches in the order of arrival can do.

Answer: no cell is worse than in the order of arrival. The more the costs differ, the more requests
can be answered in time. A key for each octave does as well in overload, but lets workers rest
batches of few apart where there is time: a quiet worker takes up to 2.4 times as long. Where there
are but two costs, a key for each is better: up to a quarter off the mean. A queue that is only
sorted gains in overload, too: where costs differ least (sigma 0.4 at 200 %), it answers 3 to 8
points more in time than costs, but knows the durations exactly. Up to nine tenths of the load its
mean is about that of greedy.
"""

from bisect import insort
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from heapq import heappop, heappush
from itertools import islice, product
from math import inf, log2
from typing import NamedTuple

import numpy as np
from drawn import drawn
from spread import spread

from adaptive_batching.core import Costs, Limits
from adaptive_batching.simulation import (
    Bimodal,
    CostSeconds,
    DrawnCosts,
    Experiment,
    Lognormal,
    Row,
    Server,
    poisson,
)
from adaptive_batching.simulation.study.comparison import Change, Tolerance, compared
from adaptive_batching.workers.pinning import available

LAWS: dict[str, Lognormal | Bimodal] = {
    **{f"sigma {sigma}": Lognormal(45.0, sigma, 2048.0) for sigma in (0.4, 0.8, 1.2)},
    "16 or 320": Bimodal(16.0, 320.0, 0.2),
}
FIXED, PER_COST, LARGEST = 4e-3, 1.2e-6, 64
WANTED = dict(zip(LAWS, (1.25, 1.4, 1.6, 1.8), strict=True))  # times the capacity of fifo
SERVER = Server(FIXED, 0.0, jitter=0.02, costs=CostSeconds(PER_COST, padded=True))
WITHIN = 100e-3
FIFO, COSTLY = Limits(LARGEST, WITHIN), Limits(LARGEST, WITHIN, costs=Costs(padded=True))
SEEDS = (1, 2, 3)
LEARNING, COUNTED = 600, 1_200  # requests for each worker, and at least so many seconds:
WARM, LONG = 0.2, 0.8
NO_WORSE = Tolerance(0.005, None, 0.02, inf)
ENOUGH = 0.99
HALVINGS, TRIED = 6, 2.0  # of the interval that holds the capacity, and seconds of each trial


class Cell(NamedTuple):
    """One row."""

    law: str
    workers: int
    load: float


def in_order(law: str) -> float:
    """Requests a second and worker in full batches in the order of arrival."""
    costs = LAWS[law].draw(np.random.default_rng(0), 2_000 * LARGEST)
    mean = float(costs.reshape(-1, LARGEST).max(axis=1).mean())
    return LARGEST / (FIXED + PER_COST * LARGEST * mean)


def unpadded(law: str) -> float:
    """Requests a second and worker in full batches of equals."""
    mean = float(LAWS[law].draw(np.random.default_rng(0), 2_000 * LARGEST).mean())
    return 1 / (FIXED / LARGEST + PER_COST * mean)


def experiment(law: str, rate: float, warmup: float, seconds: float, seed: int) -> Experiment:
    """Costly requests, of whose costs the scheduler knows nothing."""
    arrivals = poisson(rate, warmup + seconds, seed=seed)
    costs = list(islice(DrawnCosts(LAWS[law], seed), len(arrivals)))
    return Experiment(arrivals, SERVER, FIFO, costs=costs, warmup=warmup, seed=seed)


def traffic(cell: Cell, seed: int) -> Experiment:
    """What every column meets."""
    rate = cell.load * cell.workers * in_order(cell.law)
    warm = max(LEARNING * cell.workers / rate, WARM)
    seconds = max(COUNTED * cell.workers / rate, LONG if cell.load > 1 else 0.0)
    return experiment(cell.law, rate, warm, seconds, seed)


def requests(traffic: Experiment) -> list[tuple[float, float]]:
    """When each comes, and what it costs."""
    assert isinstance(traffic.arrivals, np.ndarray)
    assert traffic.costs is not None
    return list(zip(traffic.arrivals.tolist(), traffic.costs, strict=True))


def only_sorted(traffic: Experiment, workers: int) -> tuple[float, float]:
    """Goodput, and mean latency of what is answered (seconds), of a queue sorted by cost."""
    coming = requests(traffic)[::-1]
    counted = sum(arrived >= traffic.warmup for arrived, _ in coming)
    waiting: list[tuple[float, float]] = []  # costs, and when they came
    free, latencies = [0.0] * workers, list[float]()
    while coming or waiting:
        now = heappop(free) if waiting else max(heappop(free), coming[-1][0])
        while coming and coming[-1][0] <= now:
            arrived, cost = coming.pop()
            insort(waiting, (cost, arrived))
        oldest = min(range(len(waiting)), key=lambda index: waiting[index][1])
        first = max(0, min(oldest - LARGEST // 2, len(waiting) - LARGEST))
        batch = waiting[first : first + LARGEST]
        end = now + FIXED + PER_COST * len(batch) * batch[-1][0]
        if end > waiting[oldest][1] + WITHIN:
            del waiting[oldest]
            end = now
        else:
            del waiting[first : first + LARGEST]
            latencies += [end - arrived for _, arrived in batch if arrived >= traffic.warmup]
        heappush(free, end)
    return len(latencies) / counted, sum(latencies) / max(1, len(latencies))


def clairvoyant(traffic: Experiment, workers: int) -> float:
    """The share that workers have the time for between the first arrival and the last deadline."""
    counted = [each for each in requests(traffic) if each[0] >= traffic.warmup]
    times, costs = zip(*counted, strict=True)
    work = np.cumsum(FIXED / LARGEST + PER_COST * np.sort(costs))
    return float(np.mean(work <= workers * (times[-1] + WITHIN - times[0])))


def rows_of(cell: Cell, seed: int) -> tuple[Row, Row, Row, Row]:
    """The columns of policies."""
    fifo = traffic(cell, seed)
    assert fifo.costs is not None
    octaves = replace(fifo, keys=[int(log2(cost)) for cost in fifo.costs])
    costs = replace(fifo, limits=COSTLY)
    runs = ((fifo, "cork"), (octaves, "cork"), (costs, "cork"), (fifo, "greedy"))
    first, second, third, fourth = (each.run(policy, cell.workers) for each, policy in runs)
    return first, second, third, fourth


def shown(rows: Sequence[Row]) -> str:
    """Goodput and mean latency over the seeds."""
    return pair([(row.goodput or 0.0, row.mean_latency or 0.0) for row in rows])


def pair(found: Sequence[tuple[float, float]]) -> str:
    """In per cent and ms."""
    goodput, mean = np.mean(found, axis=0) * (100, 1e3)
    return f"{goodput:6.1f} {mean:4.0f}" if mean >= 100 else f"{goodput:6.1f} {mean:4.1f}"


def changed(change: Change | None, sign: int) -> str:
    """In per cent, with its interval."""
    assert change is not None
    mean, half = round(sign * change.mean * 100, 1) + 0.0, (change.high - change.low) / 2
    return f"{mean:+6.1f} ±{half * 100:4.1f}"


def told(cell: Cell) -> str:
    """One row of the first table."""
    columns = list(zip(*(rows_of(cell, seed) for seed in SEEDS), strict=True))
    fifo, _, costs, _ = columns
    judged = compared(list(zip(fifo, costs, strict=True)), NO_WORSE)
    served = all((row.goodput or 0.0) >= ENOUGH for row in (*fifo, *costs))
    mean = changed(judged.mean_increase, 1) if served else ""
    faults = [fault for fault in judged.faults if served or not fault.startswith("mean")]
    figures = " | ".join([*map(shown, columns), others(cell)])
    more = f"{changed(judged.goodput_loss, -1)} | {mean:12}"
    condition = f"{cell.law:9} {cell.workers:7} {cell.load:4.0%}"
    return f"{condition} | {figures} | {more} | {'; '.join(faults)}".rstrip(" |")


def others(cell: Cell) -> str:
    """What no policy is."""
    cases = [traffic(cell, seed) for seed in SEEDS]
    alone = pair([only_sorted(case, cell.workers) for case in cases])
    return f"{alone} | {np.mean([clairvoyant(case, cell.workers) for case in cases]) * 100:5.1f}"


def capacity(law: str, limits: Limits, most: float) -> float:
    """Requests a second of one worker that are answered in time but for one in a hundred."""
    low, high = 0.7 * in_order(law), most
    for _ in range(HALVINGS):
        rate = (low * high) ** 0.5
        tried = replace(experiment(law, rate, WARM, TRIED, seed=1), limits=limits)
        if (tried.run("cork").goodput or 0.0) >= ENOUGH:
            low = rate
        else:
            high = rate
    return low


def gained(law: str) -> str:
    """One row of the second table."""
    fifo = capacity(law, FIFO, 1.3 * in_order(law))
    costs, bound = capacity(law, COSTLY, unpadded(law)), unpadded(law)
    return (
        f"{law:9} | {fifo:10,.0f} | {costs / fifo:5.2f} | {WANTED[law]:5.2f} | {bound / fifo:8.2f}"
    )


def row(item: Cell | str) -> str:
    """One of either table."""
    return gained(item) if isinstance(item, str) else told(item)


def main() -> None:
    """Print both tables."""
    names = ("fifo", "octave", "costs", "greedy", "sorted")
    columns = " | ".join(f"{name:>6} mean" for name in names)
    print(f"costs     workers load | {columns} | bound |      points |       mean %")
    cells = [Cell(*each) for each in product(LAWS, (1, 2, 4), (0.3, 0.6, 0.9, 1.1, 2.0))]
    work = partial(spread, row, jobs=min(2, len(available())))
    for line in work(drawn(cells)):
        print(line)
    print("capacity  | fifo, a second | costs | asked | no padding")
    for line in work(drawn(LAWS)):
        print(line)


if __name__ == "__main__":
    main()
