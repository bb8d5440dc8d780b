"""Where does `cork` do worst, of conditions that are drawn by lot?

Covers: models of 0.5 to 40 ms, and 0.05 to 30 times that for the items of a full batch of 8 to 256;
1 to 8 workers; loads of 0.02 to 2; promises of 1.1 to 12 full batches, or none. Traffic is Poisson,
MMPP, clumped, even or closed. Six models of ten are no straight line: padded, flat until a knee, or
steep behind it, quadratic or concave. A tenth to a third of the scenarios each have requests of
several items, batch keys (some of which cost more), deadlines of their own, a drift, a slow worker,
a cold start, jitter, pauses, a coarse timer or an event loop that lags.

All policies meet the same traffic and luck. What is behind counts in points of goodput (of a closed
loop: in per cent of the answers in time, counted as in `grid.py`); mean latencies where both answer
99 % in time. The worst cells are run again with three other seeds, for the worst of many is often
bad luck. A scenario is a command line of `simulate`, which is told; where that needs a trace,
`--trace NUMBER` prints it.
"""

import argparse
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from grid import SERVED, Run, behind, measured, share
from spread import spread

from adaptive_batching.cli.commands.simulate import command
from adaptive_batching.cli.options.conditions import experiment_of
from adaptive_batching.simulation import Row, clumped, mmpp, poisson
from adaptive_batching.simulation.traffic.arrivals import Times
from adaptive_batching.units import counted

RIVALS = ("greedy", "greedy+drop", "window:2ms", "nexus", "deferred", "aimd", "bentoml:0")
BATCHES, REQUESTS, MOST = 40, 4_000, 20_000  # full batches and requests at least; at the most
OTHER_SEEDS = 3
OF_THE_COMMAND = (  # and not of what is simulated
    "trace", "seed", "policies", "workers", "replications", "with_limit", "report", "loads", "form",
)  # fmt: skip
PATIENT = 6.0  # times the usual promise

Time = Callable[[float], float]
"""Items of a batch -> seconds."""


class Trace(NamedTuple):
    """Traffic that no options make.

    Attributes:
        kind: Of the arrivals.
        rate: Requests a second.
        seconds: How long.
        full: Seconds that a full batch takes: bursts are as long as some of them.
        mean: Items of a request, on average.
        largest: Items of a request, at the most.
        patient: Share of the requests that have a deadline of their own.
        patience: Seconds from their arrivals to that.
    """

    kind: str
    rate: float
    seconds: float
    full: float
    mean: float
    largest: int
    patient: float
    patience: float

    def lines(self, seed: int) -> list[str]:
        """A CSV, the same for the same seed."""
        times, rng = self._times(seed), np.random.default_rng(seed)
        sizes = np.minimum(rng.geometric(1 / self.mean, len(times)), self.largest).tolist()
        waits = rng.random(len(times)) < self.patient
        own = [f"{self.patience:.6g}" if wait else "" for wait in waits]
        rows = zip(times.tolist(), sizes, own, strict=True)
        return ["t_seconds,size,max_latency", *(f"{at:.9f},{size},{by}" for at, size, by in rows)]

    def _times(self, seed: int) -> Times:
        if self.kind == "even":
            return np.arange(1, max(2, self.seconds * self.rate)) / self.rate
        if self.kind == "mmpp":
            sojourns = (9 * self.full, 3 * self.full)
            return mmpp(self.rate, self.seconds, seed=seed, sojourns=sojourns)
        make = poisson if self.kind == "poisson" else clumped
        return make(self.rate, self.seconds, seed=seed)


class Scenario(NamedTuple):
    """One set of conditions.

    Attributes:
        number: Of the draw.
        options: Of `simulate`, but for the trace, the seed and the policies.
        trace: The traffic; None if the options make it.
        workers: How many there are.
        closed: Whether users wait for their answers.
    """

    number: int
    options: tuple[str, ...]
    trace: Trace | None
    workers: int
    closed: bool

    def command(self, seed: int, rival: str) -> str:
        """What reproduces it."""
        name = () if self.trace is None else (f"{self.number}.csv",)
        policies = ("--policy", "cork", "--policy", rival)
        line = ("adaptive-batching", "simulate", *name, *self.options, "--seed", str(seed))
        return shlex.join((*line, *policies))

    def runs(self, seed: int, policies: Sequence[str]) -> list[Run]:
        """Run policies as the command does."""
        with TemporaryDirectory() as folder:
            path = Path(folder) / f"{self.number}.csv"
            name = []
            if self.trace is not None:
                path.write_text("\n".join(self.trace.lines(seed)))
                name = [str(path)]
            given = command.make_context("simulate", [*name, *self.options]).params
            options = {name: value for name, value in given.items() if name not in OF_THE_COMMAND}
            experiment = experiment_of(given["trace"], options, seed)
        return [measured(experiment, policy, self.workers) for policy in policies]


class Lots:
    """What is drawn for one scenario."""

    def __init__(self, seed: int, number: int) -> None:
        self.rng = np.random.default_rng([seed, number])

    def between(self, least: float, most: float) -> float:
        """A number whose logarithm is uniform."""
        return float(np.exp(self.rng.uniform(np.log(least), np.log(most))))

    def one(self, *things: object) -> str:
        """One of them, as text."""
        return str(things[self.rng.integers(len(things))])

    def happens(self, probability: float) -> bool:
        """Whether something does."""
        return bool(self.rng.random() < probability)


def ms(seconds: float) -> str:
    """As an option."""
    return f"{seconds * 1e3:.6g}ms"


def scenario(number: int, seed: int, *, warm: bool) -> Scenario:
    """Draw one."""
    lots = Lots(seed, number)
    largest = 2 ** int(lots.rng.integers(3, 9))
    workers = int(lots.one(1, 1, 2, 3, 4, 8))
    latency, padding, time = model(lots, largest)
    full = time(largest)
    capacity = workers * max(size / time(size) for size in range(1, largest + 1))
    within = None if lots.happens(0.1) else lots.between(1.1, 12) * full
    closed = lots.happens(0.25)
    if closed:
        traffic, trace, seconds = loop(lots, workers * largest, full, within)
    else:
        rate = lots.between(0.02, 2.0) * capacity
        seconds = length(rate, full)
        traffic, trace = arrivals(lots, rate, seconds, full, largest, within)
    options = [*traffic, "--max-batch-size", str(largest), *padding]
    options += [] if within is None else ["--max-latency", ms(within)]
    if workers > 1 and lots.happens(0.15):
        slow = ",".join(_slower(part) for part in latency.split(","))
        options += ["--worker", f"{workers - 1}x{latency}", "--worker", slow]
    else:
        options += ["--latency", latency, "--workers", str(workers)]
    options += days(lots, full, seconds)
    options += ["--warmup", f"{seconds / 2:.6g}"] if warm else []
    return Scenario(number, tuple(options), trace, workers, closed)


def length(rate: float, full: float) -> float:
    """Seconds: so many batches and requests at least, but not too many of these."""
    return min(max(BATCHES * full, REQUESTS / rate), MOST / rate)


def _slower(part: str) -> str:
    """A worker's line or a point of its table, twice as long."""
    size, colon, line = part.rpartition(":")
    doubled = "+".join(f"{float(each.removesuffix('ms')) * 2:.6g}ms" for each in line.split("+"))
    return f"{size}{colon}{doubled}"


def model(lots: Lots, largest: int) -> tuple[str, list[str], Time]:
    """How long batches take: as options, and as a function."""
    fixed = lots.between(0.5e-3, 40e-3)
    items = lots.between(0.05, 30) * fixed  # of a full batch
    knee = float(lots.rng.uniform(0.2, 0.7))
    line: Time = lambda size: fixed + items * size / largest  # noqa: E731
    shape = lots.one(*["line"] * 4, "pow2", "sizes", "flat", "quadratic", "knee", "concave")
    straight = f"{ms(fixed)}+{ms(items / largest)}"
    if shape == "line":
        return straight, [], line
    if shape in {"pow2", "sizes"}:
        steps = [largest >> each for each in (range(9) if shape == "pow2" else (5, 3, 1, 0))]
        sizes = sorted({1, *(step for step in steps if step)})
        padded: Time = lambda size: line(min(each for each in sizes if each >= size))  # noqa: E731
        return straight, ["--hide-sizes", "--pad-to", ",".join(map(str, sizes))], padded
    shapes: dict[str, Time] = {
        "flat": lambda share: max(0.0, share - knee) / (1 - knee),
        "quadratic": lambda share: share**2,
        "knee": lambda share: share / 8 + 3 * max(0.0, share - knee),
        "concave": lambda share: share**0.5,
    }
    curve: Time = lambda size: fixed + items * shapes[shape](size / largest)  # noqa: E731
    points = sorted({size for step in range(9) for size in (1 << step, 3 << step)} | {largest})
    known = [size for size in points if size <= largest]
    return ",".join(f"{size}:{ms(curve(size))}" for size in known), [], curve


def loop(
    lots: Lots, places: int, full: float, within: float | None
) -> tuple[list[str], None, float]:
    """Users who send again; if the promise is short no more than can be served in time."""
    most = 0.8 if within is not None and within < 2 * full else 1.2
    users = max(1, round(lots.between(0.05, most) * places))
    think = float(lots.one(0, 0, 1, 3)) * full * lots.between(0.1, 1)
    turnaround = max(0.1e-3, lots.between(0.01, 0.3) * full)
    seconds = length(users / (full + think + turnaround), full)
    spans = ["--think", f"{ms(think / 2)}-{ms(think * 1.5)}"]
    spans += ["--turnaround", f"{ms(turnaround / 2)}-{ms(turnaround * 1.5)}"]
    told = ["--arrivals", "closed", "--users", str(users), "--duration", f"{seconds:.6g}"]
    return [*told, *spans], None, seconds


def arrivals(
    lots: Lots, rate: float, seconds: float, full: float, largest: int, within: float | None
) -> tuple[list[str], Trace | None]:
    """Options that make the traffic, or a trace if none do."""
    kind = lots.one("poisson", "poisson", "poisson", "mmpp", "mmpp", "clumped", "even")
    items = lots.happens(0.15)
    mean = lots.between(1.5, max(2.0, largest / 4)) if items else 1.0
    own = within is not None and lots.happens(0.15)
    patient = float(lots.rng.uniform(0.3, 0.8)) if own else 0.0
    rate /= mean
    if kind in {"poisson", "clumped"} and not items and not own:
        told = ["--arrivals", kind, "--rate", f"{rate:.6g}", "--duration", f"{seconds:.6g}"]
        return told, None
    patience = PATIENT * within if within is not None else 0.0
    trace = Trace(kind, rate, seconds, full, mean, largest, patient, patience)
    return ["--sizes", "items"], trace


def days(lots: Lots, full: float, seconds: float) -> list[str]:
    """What happens to workers and to the event loop; always told, so that no default decides."""
    told = ["--loop-delay", "0.3ms" if lots.happens(0.25) else "0ms"]
    told += ["--timer-resolution", "1ms" if lots.happens(0.33) else "0ms"]
    if lots.happens(0.33):
        told += ["--jitter", lots.one(0.05, 0.1, 0.3)]
    if lots.happens(0.33):
        share, length = float(lots.one(0.005, 0.02)), lots.between(0.5, 5) * full
        told += ["--pause", f"{ms(length)}/{ms(length / share)}"]
    if lots.happens(0.1):
        told += ["--drift", f"{lots.one(0.5, 2, 3)}x@{seconds * 0.6:.6g}s"]
    if lots.happens(0.1):
        told += ["--cold-start", f"5:{ms(lots.between(1, 10) * full)}"]
    if lots.happens(0.2):
        keys = int(lots.one(2, 4, 8, 32))
        told += ["--keys", f"{lots.one('', 'zipf:')}{keys}"]
        if lots.happens(0.5):
            told += ["--key-cost", ",".join(lots.one(1, 1, 2, 4, 8) for _ in range(keys))]
    return told


class Outcome(NamedTuple):
    """What came of a scenario: the run of cork, and those of the rivals."""

    scenario: Scenario
    cork: Run
    rivals: list[Run]

    @property
    def behind(self) -> list[float]:
        """By how much each rival is ahead of cork."""
        closed = self.scenario.closed
        return [behind(self.cork, rival, closed=closed) for rival in self.rivals]

    @property
    def slower(self) -> list[float | None]:
        """By how much cork takes longer on average; None where that says nothing."""
        return [_slower_than(self.cork.row, rival.row) for rival in self.rivals]

    @property
    def worst(self) -> tuple[float, int]:
        """By how much cork is worse in goodput or, if that is equal, in mean latency; and to whom.

        A point counts as much as 10 % of the mean.
        """
        each = zip(self.behind, self.slower, strict=True)
        return max(
            (max(lost, (mean or 0.0) / 10), index) for index, (lost, mean) in enumerate(each)
        )


def _slower_than(cork: Row, rival: Row) -> float | None:
    if min(share([cork]), share([rival])) < SERVED:
        return None
    if not (cork.mean_latency and rival.mean_latency):
        return None
    return cork.mean_latency / rival.mean_latency - 1


def outcome(number: int, seed: int, *, warm: bool) -> Outcome:
    """Of one scenario."""
    drawn = scenario(number, seed, warm=warm)
    cork, *rivals = drawn.runs(seed, ("cork", *RIVALS))
    return Outcome(drawn, cork, rivals)


def summary(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """A line for each rival."""
    yield (
        f"{'rival':12} {'cork ahead':>10} {'>1 behind':>9} {'>3 behind':>9} {'>1 ahead':>9}"
        f" {'mean':>7} {'3% slower':>9} {'3% faster':>9}"
    )
    for index, name in enumerate(RIVALS):
        lost = np.array([found.behind[index] for found in outcomes])
        shares = (lost > 0.01, lost > 0.03, lost < -0.01)
        behind_or_ahead = " ".join(f"{each.mean():9.1%}" for each in shares)
        means = [mean for found in outcomes if (mean := found.slower[index]) is not None]
        yield f"{name:12} {-lost.mean() * 100:+10.2f} {behind_or_ahead} {_latencies(means)}"


def _latencies(changes: Sequence[float]) -> str:
    """Of cork against a rival."""
    if not changes:
        return f"{'-':>7}"
    mean = np.array(changes)
    return f"{mean.mean():+7.1%} {(mean > 0.03).mean():9.1%} {(mean < -0.03).mean():9.1%}"


def worst(outcomes: Sequence[Outcome], number: int, seed: int) -> Iterator[str]:
    """The worst cells, with other seeds as well, and what reproduces them."""
    ranked = sorted(outcomes, key=lambda found: found.worst[0], reverse=True)
    for found in ranked[:number]:
        _, index = found.worst
        drawn, rival = found.scenario, RIVALS[index]
        yield f"#{drawn.number} {_figures(drawn, found.cork, found.rivals[index])}"
        for other in range(seed + 1, seed + 1 + OTHER_SEEDS):
            yield f"    seed {other}: {_figures(drawn, *drawn.runs(other, ('cork', rival)))}"
        if drawn.trace is not None:
            yield (
                f"    python simulations/search.py --seed {seed} --trace {drawn.number}"
                f" > {drawn.number}.csv"
            )
        yield f"    {drawn.command(seed, rival)}"


def _figures(drawn: Scenario, cork: Run, rival: Run) -> str:
    lost = behind(cork, rival, closed=drawn.closed)
    both = " against ".join(
        f"{row.policy} {share([row]):.1%} {(row.mean_latency or 0.0) * 1e3:.2f} ms"
        for row, _ in (cork, rival)
    )
    return f"{both}, {lost * 100:+.1f} points behind"


def main() -> None:
    """Scenario by scenario."""
    parser = argparse.ArgumentParser(description="Draw conditions, and print the worst for cork.")
    parser.add_argument("--scenarios", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1, help="of the draw, the traffic and the luck")
    parser.add_argument("--worst", type=int, default=10, help="cells to tell with their commands")
    parser.add_argument("--only", type=int, action="append", help="this number alone; repeat")
    parser.add_argument("--warm", action="store_true", help="leave the first half of each run out")
    parser.add_argument("--trace", type=int, metavar="NUMBER", help="print a scenario's trace")
    parser.add_argument("--traffic", type=int, metavar="SEED", help="of --trace, if another")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    args = parser.parse_args()
    if args.trace is not None:
        trace = scenario(args.trace, args.seed, warm=False).trace
        traffic = args.seed if args.traffic is None else args.traffic
        print("\n".join([] if trace is None else trace.lines(traffic)))
        return
    numbers = args.only or list(range(args.scenarios))
    outcomes = []
    for found in spread(partial(outcome, seed=args.seed, warm=args.warm), numbers, args.jobs):
        outcomes.append(found)
        if sys.stderr.isatty():
            print(f"{len(outcomes)} of {len(numbers)}", end="\r", file=sys.stderr, flush=True)
    print(counted(len(outcomes), "scenario"))
    print("\n".join(summary(outcomes)), flush=True)
    for line in worst(outcomes, args.worst, args.seed):
        print(line, flush=True)


if __name__ == "__main__":
    main()
