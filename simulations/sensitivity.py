"""What does each number behind a decision of `cork` buy?

Covers: every parameter of `cork`, halved and doubled: the change of goodput in points (of a closed
loop: of the answers in per cent), and of the mean latency and its 99th percentile in per cent, on
average over the cells; and the cell where the first changes most.

Cells: Poisson traffic, bursts, 20-fold peaks, clumps and closed loops of models of 5 ms + 0.05 ms *
n, 40 ms + 0.1 ms * n, 1 ms + 0.5 ms * n and 0.1 ms + 5 ms * n, with one, two and four workers, at 5
to 150 % of what these can do, within 1.5 to 10 full batches or without a promise; eight batch keys
by Zipf's law, and a hundred users of 64 keys; and one of four workers three times as slow. A jitter
of 0.1; and every 200 full batches a worker stands still for two. The same traffic and luck for all;
3,000 requests for each worker, so that a few tenths of a point are luck.

Answer: nothing to tune. Where a parameter is doubled or halved, little changes, but for three:
batches that may not grow beyond the largest seen never do; a flood that is seen where there is none
makes batches wait until they are due; and the more other keys count at the door, the more users who
ask again at once are answered, while open traffic of many keys loses a little (`search.py`).
"""

from collections.abc import Callable
from math import inf
from typing import NamedTuple

import numpy as np
from drawn import drawn

from adaptive_batching.core import Limits
from adaptive_batching.core.policies.cork.cork import Cork
from adaptive_batching.core.policies.cork.parameters import CorkParameters
from adaptive_batching.simulation import (
    ClosedLoop,
    Experiment,
    Lots,
    Pauses,
    Row,
    Server,
    Span,
    UnevenServers,
    clumped,
    mmpp,
    poisson,
)

REQUESTS, LEARNING = 3_000, 0.3
DEFAULT = CorkParameters()


class Cell(NamedTuple):
    """Conditions, and how many workers there are."""

    name: str
    experiment: Experiment
    workers: int

    @property
    def closed(self) -> bool:
        """Whether users wait for their answers."""
        return isinstance(self.experiment.arrivals, ClosedLoop)


def server(fixed: float, per_item: float) -> Server:
    """In milliseconds."""
    full = (fixed + 64 * per_item) * 1e-3
    # Pauses strike time, not batches: a policy of small batches meets no more of them.
    pauses = Pauses(2 * full, 200 * full)
    return Server(fixed * 1e-3, per_item * 1e-3, jitter=0.1, conditions=(pauses,))


def zipf(number: int, requests: int) -> list[int]:
    """A batch key for each request, the nth as often as 1 / n."""
    shares = 1 / np.arange(1, number + 1)
    return np.random.default_rng(1).choice(number, requests, p=shares / shares.sum()).tolist()


def cell(
    traffic: str, model: tuple[float, float], workers: int, load: float, promise: float
) -> Cell:
    """One of open traffic; the promise in full batches."""
    full = (model[0] + 64 * model[1]) * 1e-3
    rate = load * workers * 64 / full
    seconds = REQUESTS * workers / rate
    if traffic == "peaks":
        spells = (4.75 * full, 0.25 * full)
        arrivals = mmpp(rate, seconds, seed=1, rates=(0.0, rate * 20), sojourns=spells)
    elif traffic == "bursts":
        spells = (25 * full, 12 * full)
        arrivals = mmpp(rate, seconds, seed=1, rates=(rate / 2, rate * 2), sojourns=spells)
    else:
        arrivals = (clumped if traffic == "clumps" else poisson)(rate, seconds, seed=1)
    limits = Limits(64, promise * full)
    keys = zipf(8, len(arrivals)) if traffic == "keys" else None
    servers: Server | UnevenServers = server(*model)
    if traffic == "uneven":
        slow = server(3 * model[0], 3 * model[1])
        servers = UnevenServers((*[server(*model)] * (workers - 1), slow))
    experiment = Experiment(arrivals, servers, limits, keys=keys, warmup=LEARNING * seconds)
    return Cell(f"{traffic} W={workers} {load:.0%}", experiment, workers)


def loop(
    model: tuple[float, float],
    workers: int,
    users: int,
    back: Span,
    promise: float = inf,
    keys: Lots | None = None,
) -> Cell:
    """Users who send again when they are answered, or refused; the promise in full batches."""
    full = (model[0] + 64 * model[1]) * 1e-3
    seconds = (60 if keys is None else 600) * full  # a batch of one key holds a few of all jobs
    users_loop = ClosedLoop(users, seconds, Span(0.0, 0.0), back, seed=1)
    limits = Limits(64, promise * full)
    experiment = Experiment(users_loop, server(*model), limits, keys=keys, warmup=seconds / 2)
    name = f"{users} users W={workers}" if keys is None else f"{users} users of {keys.keys} keys"
    return Cell(name, experiment, workers)


FLAT, SLOW, STEEP, ITEMS = (5.0, 0.05), (40.0, 0.1), (1.0, 0.5), (0.1, 5.0)
CELLS = (
    cell("poisson", FLAT, 1, 0.6, 3), cell("poisson", FLAT, 1, 1.2, 3),
    cell("poisson", FLAT, 4, 0.6, 1.5), cell("poisson", FLAT, 4, 1.1, 1.5),
    cell("poisson", SLOW, 2, 0.9, 3), cell("poisson", STEEP, 2, 0.7, inf),
    cell("poisson", STEEP, 4, 0.6, 10), cell("bursts", FLAT, 4, 0.7, 3),
    cell("bursts", SLOW, 1, 0.9, 2), cell("peaks", STEEP, 1, 0.9, 3),
    cell("clumps", FLAT, 1, 0.05, inf), cell("clumps", FLAT, 4, 0.3, 10),
    cell("keys", FLAT, 2, 1.5, 3), cell("uneven", FLAT, 4, 0.6, 3),
    loop(FLAT, 1, 64, Span(0.3e-3, 2.3e-3)), loop(SLOW, 1, 64, Span(2e-3, 10e-3)),
    loop(FLAT, 1, 48, Span(5e-3, 7e-3)), cell("poisson", ITEMS, 1, 0.7, 1.5),
    loop(FLAT, 1, 100, Span(2e-3, 10e-3), 4, Lots(64, 1.0)),
)  # fmt: skip


def compared(usual: Row, other: Row, *, closed: bool) -> tuple[float, float, float]:
    """The change of goodput in points (of a closed loop: of answers in per cent), mean and p99."""
    assert usual.goodput is not None
    assert other.goodput is not None
    gained = 100 * (other.goodput - usual.goodput)
    if closed:
        gained = 100 * (other.on_time / usual.on_time - 1)
    return (
        gained,
        _longer(usual.mean_latency, other.mean_latency),
        _longer(usual.p99_latency, other.p99_latency),
    )


def _longer(usual: float | None, other: float | None) -> float:
    return 100 * (other / usual - 1) if usual and other else 0.0


def with_parameters(parameters: CorkParameters) -> Callable[[], Cork]:
    """A policy's factory."""
    return lambda: Cork(parameters)


usual = [each.experiment.run("cork", each.workers) for each in CELLS]
print("                          goodput    mean     p99   most: points")
for name in drawn(drawn(CorkParameters._fields)):  # a third of them takes a minute
    value = getattr(DEFAULT, name)
    for factor in (0.5, 2.0):
        policy = with_parameters(DEFAULT._replace(**{name: value * factor}))
        changes = [
            compared(before, each.experiment.run(policy, each.workers), closed=each.closed)
            for each, before in zip(CELLS, usual, strict=True)
        ]
        most = max(range(len(CELLS)), key=lambda index: abs(changes[index][0]))
        goodput, mean, p99 = (sum(each) / len(CELLS) for each in zip(*changes, strict=True))
        print(
            f"{name:14} {value:5g} x {factor:3g} {goodput:+8.2f} {mean:+6.2f}% {p99:+6.2f}%"
            f"   {changes[most][0]:+6.2f} {CELLS[most].name if changes[most][0] else ''}".rstrip()
        )
