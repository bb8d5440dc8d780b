"""Where does `cork` lose to the best of the others?

Covers: five models, 1 to 8 workers, promises of 1.5 to 10 full batches; Poisson traffic, MMPP,
clumps, and peaks of 20 times the mean rate, of 0.3 to 2 times what the workers can do; closed loops
with turnarounds of 1 to 30 % of a full batch, with and without thinking. Batches of at most 64.
Rivals: `greedy`, `window` (the best of three), `nexus`, `deferred`, `aimd`, `bentoml:0`.

Each replication has its seed, with the same traffic and the same luck for every policy. A cell is
lost if a rival is ahead by more than 0.5 points of goodput (of a closed loop: by more than 0.5 % of
the answers in time), or if cork's mean latency is longer by more than 2 % where both answer 99 % in
time; and if the whole 95 % interval over the replications is beyond that. Rivals that seem to win a
cell meet `cork` again there, with twice as many fresh seeds and four at least, and only what these
say counts. With one replication, whatever is beyond in it seems to win.

A run lasts 40 full batches at least, and 4,000 requests, an overload 60 promises: all that waits at
its end is answered, so that the longest queue would win a short one. The first 40 % are left out,
while all learn. Users of a closed loop are answered in rounds, of which the time that counts holds
one more or less by chance: so there an answer counts by the part of its latency that lies in it.
Timers and the event loop are ideal unless --loop-delay says otherwise, and without --jitter no
batch is luckier than another: then the limit of one worker, which is told beside, is exact.
That and `cork` are compared over the whole run, the learning included.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from random import Random
from typing import NamedTuple

from spread import spread

from adaptive_batching.core import Limits
from adaptive_batching.simulation import (
    ClosedLoop,
    Experiment,
    History,
    Row,
    Server,
    Span,
    clumped,
    limit_of,
    mmpp,
    poisson,
    summarize,
)
from adaptive_batching.simulation.study.replications import Estimate, estimate
from adaptive_batching.simulation.traffic.arrivals import Times
from adaptive_batching.units import counted

MAX_BATCH_SIZE = 64
MODELS = ((1, 0.5), (5, 0.05), (20, 0.1), (40, 0.1), (143, 0.245))  # ms, ms an item
WORKERS = (1, 2, 4, 8)
PROMISES = (1.5, 2.0, 3.0, 10.0)  # full batches
KINDS = ("poisson", "mmpp", "clumped", "peaks")
LOADS = (0.3, 0.6, 0.9, 1.1, 2.0)  # of what the workers can do
TURNAROUNDS = (0.01, 0.05, 0.3)  # of a full batch
THINKING = (0.0, 1.0)  # full batches
USERS = (0.1, 0.5, 0.9)  # of as many as fill a batch on every worker
RIVALS = ("greedy", "nexus", "deferred", "aimd", "bentoml:0")
WINDOWS = (0.05, 0.2, 0.5)  # of a full batch
GOODPUT_LOST, MEAN_LONGER = 0.005, 0.02
SERVED = 0.99  # below that a mean latency says more of those who were refused
CONFIRMING = 4  # fresh seeds at least: with two, 95 % reach 13 standard errors far
BATCHES, REQUESTS, LEARNING = 40, 4_000, 0.4
OVERLOADED = 60  # promises: how long overload lasts


class Open(NamedTuple):
    """Requests that come whatever happens."""

    kind: str
    load: float

    def __str__(self) -> str:
        return f"{self.kind} {self.load:g}"


class Closed(NamedTuple):
    """Users who send again when they are answered."""

    turnaround: float
    think: float
    users: float

    def __str__(self) -> str:
        return f"closed {self.users:g}, turnaround {self.turnaround:g}, think {self.think:g}"


@dataclass(frozen=True, slots=True)
class Cell:
    """One set of conditions, by its number in the grid."""

    number: int
    model: tuple[float, float]
    workers: int
    promise: float
    traffic: Open | Closed

    def __str__(self) -> str:
        fixed, per_item = self.model
        where = f"{fixed:g}+{per_item:g} ms W={self.workers} D={self.promise:g}"
        return f"#{self.number} {where}, {self.traffic}"

    @property
    def full(self) -> float:
        """Seconds that a full batch takes."""
        fixed, per_item = self.model
        return (fixed + per_item * MAX_BATCH_SIZE) / 1e3

    @property
    def rivals(self) -> list[str]:
        """With the windows that may suit this model."""
        return [*RIVALS, *(f"window:{share * self.full * 1e3:.3g}ms" for share in WINDOWS)]

    def experiment(self, seed: int, jitter: float, loop_delay: float) -> Experiment:
        """With the traffic and the luck of a seed."""
        arrivals, seconds = self._arrivals(seed)
        fixed, per_item = self.model
        return Experiment(
            arrivals,
            Server(fixed / 1e3, per_item / 1e3, jitter=jitter),
            Limits(MAX_BATCH_SIZE, self.promise * self.full),
            loop_delay=loop_delay,
            warmup=LEARNING * seconds,
            seed=seed,
        )

    def _arrivals(self, seed: int) -> tuple[Times | ClosedLoop, float]:
        full, places, traffic = self.full, self.workers * MAX_BATCH_SIZE, self.traffic
        if isinstance(traffic, Closed):
            users = max(1, round(traffic.users * places))
            cycle = full * (1 + traffic.think + traffic.turnaround)
            seconds = max(BATCHES * full, REQUESTS / users * cycle)
            think = Span(0.0, 2 * traffic.think * full)
            turnaround = Span(0.5 * traffic.turnaround * full, 1.5 * traffic.turnaround * full)
            return ClosedLoop(users, seconds, think, turnaround, seed), seconds
        rate = traffic.load * places / full
        seconds = max(BATCHES * full, REQUESTS / rate)
        if traffic.load > 1:
            seconds = max(seconds, OVERLOADED * self.promise * full)
        return _open(traffic.kind, rate, seconds, full, seed), seconds


def _open(kind: str, rate: float, seconds: float, full: float, seed: int) -> Times:
    """Bursts and clumps as long as batches of the model make them matter."""
    if kind == "poisson":
        return poisson(rate, seconds, seed=seed)
    if kind == "clumped":
        return clumped(rate, seconds, seed=seed, within=full / 50)
    if kind == "mmpp":
        return mmpp(rate, seconds, seed=seed, sojourns=(9 * full, 3 * full))
    return mmpp(rate, seconds, seed=seed, rates=(0.0, 20 * rate), sojourns=(4.75 * full, full / 4))


def cells() -> list[Cell]:
    """All of them."""
    traffic: list[Open | Closed] = [Open(*each) for each in product(KINDS, LOADS)]
    traffic += [Closed(*each) for each in product(TURNAROUNDS, THINKING, USERS)]
    grid = product(MODELS, WORKERS, PROMISES, traffic)
    return [Cell(number, *each) for number, each in enumerate(grid)]


class Run(NamedTuple):
    """The figures of one policy, and how many answers in time it gave, in parts of one."""

    row: Row
    in_time: float


def measured(experiment: Experiment, policy: str, workers: int) -> Run:
    """Simulate one policy, and count its answers in time."""
    history = History()
    experiment.play(policy, workers, history)
    begin, traffic = experiment.warmup, experiment.arrivals
    row = summarize(history, policy=policy, workers=workers, warmup=begin)
    if not isinstance(traffic, ClosedLoop):
        return Run(row, row.on_time)
    parts = (
        (min(job.finished, traffic.duration) - max(job.arrived, begin)) / job.latency
        for job in history.jobs
        if job.in_time
    )
    return Run(row, sum(part for part in parts if part > 0))


class Duel(NamedTuple):
    """`cork` against a rival in one cell.

    Attributes:
        rival: Its name.
        goodput: By how much the rival is ahead, as a share of all requests; of a closed loop, of
            the answers in time of the better one.
        mean: By how much cork's mean latency is longer, relative; None where it says nothing.
    """

    rival: str
    goodput: Estimate
    mean: Estimate | None

    @property
    def lost(self) -> bool:
        """Whether cork is worse for certain, by more than may be."""
        mean = self.mean is not None and _low(self.mean) > MEAN_LONGER
        return mean or _low(self.goodput) > GOODPUT_LOST

    def __str__(self) -> str:
        told = [f"goodput {self.goodput.shown(100, '+.2f')} points"]
        if self.mean is not None:
            told.append(f"mean {self.mean.shown(100, '+.1f')} %")
        return f"{self.rival}: {', '.join(told)}"


class Outcome(NamedTuple):
    """What came of a cell: `lost` holds what fresh seeds confirmed, `of_limit` shares of 1."""

    cell: Cell
    cork: Sequence[Row]
    duels: list[Duel]
    lost: list[Duel]
    of_limit: float | None


def _low(known: Estimate) -> float:
    return known.mean - (known.half_width or 0.0)


def met(
    cell: Cell, rivals: Sequence[str], seeds: Sequence[int], jitter: float, loop_delay: float
) -> tuple[list[Row], list[Duel]]:
    """Let cork meet rivals, seed by seed."""
    experiments = [cell.experiment(seed, jitter, loop_delay) for seed in seeds]
    cork, *others = (
        [measured(experiment, policy, cell.workers) for experiment in experiments]
        for policy in ("cork", *rivals)
    )
    closed = isinstance(cell.traffic, Closed)
    duels = [_duel(name, cork, runs, closed) for name, runs in zip(rivals, others, strict=True)]
    return [run.row for run in cork], duels


def _duel(name: str, cork: Sequence[Run], rival: Sequence[Run], closed: bool) -> Duel:  # noqa: FBT001
    pairs = list(zip(cork, rival, strict=True))
    goodput = estimate([behind(ours, other, closed=closed) for ours, other in pairs])
    assert goodput is not None
    served = all(share([run.row for run in runs]) >= SERVED for runs in (cork, rival))
    longer = [
        ours.row.mean_latency / other.row.mean_latency - 1
        for ours, other in pairs
        if ours.row.mean_latency and other.row.mean_latency
    ]
    return Duel(name, goodput, estimate(longer) if served else None)


def behind(ours: Run, other: Run, *, closed: bool) -> float:
    """By how much the other is ahead, as `Duel.goodput`."""
    of = max(ours.in_time, other.in_time) if closed else other.row.requests
    return (other.in_time - ours.in_time) / max(1, of)


def share(rows: Sequence[Row]) -> float:
    """Of all requests, those that were answered in time."""
    return sum(row.on_time for row in rows) / max(1, sum(row.requests for row in rows))


def outcome(cell: Cell, replications: int, jitter: float, loop_delay: float) -> Outcome:
    """Of one cell: who seems to win meets cork again."""
    cork, duels = met(cell, cell.rivals, range(replications), jitter, loop_delay)
    lost: list[Duel] = []
    if suspects := [duel.rival for duel in duels if duel.lost]:
        fresh = range(replications, replications + max(CONFIRMING, 2 * replications))
        _, again = met(cell, suspects, fresh, jitter, loop_delay)
        lost = [duel for duel in again if duel.lost]
    return Outcome(cell, cork, duels, lost, _of_limit(cell, jitter, loop_delay))


def _of_limit(cell: Cell, jitter: float, loop_delay: float) -> float | None:
    """How much of what is possible cork answers in time, for one worker; over the whole run."""
    if cell.workers > 1 or isinstance(cell.traffic, Closed):
        return None
    told = cell.experiment(0, jitter, loop_delay)
    whole = Experiment(told.arrivals, told.server, told.limits, loop_delay=loop_delay)
    limit, row = limit_of(whole).goodput, whole.run("cork")
    return None if not limit or row.goodput is None else row.goodput / limit


def told(found: Outcome) -> Iterator[str]:
    """The lines of a lost cell."""
    known = estimate([row.mean_latency for row in found.cork])
    mean = "-" if known is None else f"{known.mean * 1e3:.2f} ms"
    yield f"{found.cell}: cork {share(found.cork):.1%}, {mean}"
    for duel in found.lost:
        yield f"    {duel}"


def summed_up(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Cells lost, by rival, and how near the limit is."""
    lost = sum(bool(found.lost) for found in outcomes)
    yield f"{counted(len(outcomes), 'cell')}, {lost} lost"
    yield f"{'rival':12} {'cork ahead, points':>19} {'mean of cork':>13} {'cells lost':>11}"
    for name in ("greedy", "window", *RIVALS[1:]):
        duels = [duel for found in outcomes for duel in _against(name, found.duels)]
        ahead = -sum(duel.goodput.mean for duel in duels) / len(duels) * 100
        means = [duel.mean.mean for duel in duels if duel.mean is not None]
        mean = f"{sum(means) / len(means):+.1%}" if means else "-"
        losses = sum(bool(_against(name, found.lost)) for found in outcomes)
        yield f"{name:12} {ahead:19.2f} {mean:>13} {losses:11}"
    yield from _limits(outcomes)


def _against(name: str, duels: Sequence[Duel]) -> list[Duel]:
    return [duel for duel in duels if duel.rival.partition(":")[0] == name.partition(":")[0]]


def _limits(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """By kind of traffic, of one worker."""
    known = [(found.of_limit, found.cell) for found in outcomes if found.of_limit is not None]
    for kind in KINDS:
        some = [each for each in known if str(each[1].traffic).startswith(kind)]
        if some:
            least, where = min(some, key=lambda each: each[0])
            mean = sum(each for each, _ in some) / len(some)
            yield f"of the limit of one worker, {kind}: {mean:.1%}, least {least:.1%} in {where}"


def chosen(args: argparse.Namespace) -> list[Cell]:
    """The cells that the options ask for."""
    known = cells()
    if args.cell:
        return [known[number] for number in args.cell]
    if args.slice is None:
        return known
    numbers = Random(args.seed).sample(range(len(known)), args.slice)  # noqa: S311  (no secret)
    return [known[number] for number in sorted(numbers)]


def main() -> None:
    """Cell by cell: a lost one is told as soon as it is known."""
    parser = argparse.ArgumentParser(description="Print the cells where cork loses.")
    parser.add_argument("--slice", type=int, metavar="N", help="draw so many cells")
    parser.add_argument("--cell", type=int, action="append", help="this one alone; repeat")
    parser.add_argument("--seed", type=int, default=0, help="of the slice")
    parser.add_argument("--replications", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--jitter", type=float, default=0.0, help="of batches, say 0.1")
    parser.add_argument("--loop-delay", type=float, default=0.0, help="milliseconds")
    args = parser.parse_args()
    work = partial(
        outcome,
        replications=args.replications,
        jitter=args.jitter,
        loop_delay=args.loop_delay / 1e3,
    )
    outcomes = []
    asked = chosen(args)
    for found in spread(work, asked, args.jobs):
        outcomes.append(found)
        if sys.stderr.isatty():
            print(f"\r{len(outcomes)} of {len(asked)}", end="\r", file=sys.stderr, flush=True)
        if found.lost:
            print("\n".join(told(found)), flush=True)
        if args.cell:
            print("\n".join(map(str, found.duels)), flush=True)
    print("\n".join(summed_up(outcomes)))


if __name__ == "__main__":
    main()
