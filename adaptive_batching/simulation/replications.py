"""The same experiment with several seeds: how sure its figures are.

Each seed makes traffic and luck that all policies meet alike. So the differences between policies
are taken seed by seed, and are known far better than the figures themselves.
"""

import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import TypeVar

import numpy as np
import psutil
from rich import box
from rich.table import Table
from scipy.stats import t as student

from adaptive_batching.simulation.experiment import Experiment
from adaptive_batching.simulation.report import Row

T = TypeVar("T")

_CONFIDENCE = 0.95
_COMPARED = ("goodput", "throughput", "mean_latency", "p50_latency", "p99_latency")

Contestant = tuple[str, int]
"""A policy and its number of workers."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over the seeds.

    Attributes:
        mean: Of the seeds that had something to measure.
        half_width: Of its 95 % confidence interval (Student's); None for fewer than two seeds.
    """

    mean: float
    half_width: float | None

    def shown(self, factor: float, style: str) -> str:
        """With its interval, in another unit."""
        mean = format(self.mean * factor, style)
        return mean if self.half_width is None else f"{mean} ±{self.half_width * factor:.2g}"


@dataclass(frozen=True, slots=True)
class Replicated:
    """One contestant over all seeds.

    Attributes:
        policy: Its name.
        workers: Batches that could run at the same time.
        figures: By the name of a `Row`'s field; None where there was nothing to measure.
        change: Seed by seed against the first policy with as many workers, as a share of its
            figure; empty for that policy itself.
    """

    policy: str
    workers: int
    figures: dict[str, Estimate | None]
    change: dict[str, Estimate | None]


def replicate(
    make: Callable[[int], Experiment],
    contestants: Sequence[Contestant],
    seeds: Sequence[int],
    *,
    done: Callable[[], None] = lambda: None,
) -> list[Replicated]:
    """Run every contestant with every seed, as many seeds at a time as there are cores.

    Args:
        make: Makes the experiment of a seed; it is sent to other processes.
        contestants: Who meets whom.
        seeds: One replication each.
        done: Called when one of them is done.
    """
    cores = len(psutil.Process().cpu_affinity() or [0])
    run = partial(_run, make, contestants)
    if min(cores, len(seeds)) == 1:
        rows = list(_counted(map(run, seeds), done))
    else:
        context = multiprocessing.get_context("spawn")  # a fork would copy numpy's threads' locks
        processes = ProcessPoolExecutor(min(cores, len(seeds)), mp_context=context)
        with processes as pool, _none_left_behind():
            with _unheard():
                running = [pool.submit(run, seed) for seed in seeds]
            for _ in as_completed(running):
                done()
            rows = [each.result() for each in running]
    columns = list(zip(*rows, strict=True))
    return [_summed(column, _first(columns, column[0].workers)) for column in columns]


@contextmanager
def _unheard() -> Iterator[None]:
    """Ctrl-C waits, and processes that begin here never hear it: they may be importing still."""
    heard = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, heard)


@contextmanager
def _none_left_behind() -> Iterator[None]:
    """End the processes that began here when Ctrl-C ends this one."""
    others = multiprocessing.active_children()
    try:
        yield
    except KeyboardInterrupt:
        for process in multiprocessing.active_children():
            if process not in others:
                process.terminate()
        raise


def _counted(each: Iterable[T], done: Callable[[], None]) -> Iterator[T]:
    for one in each:
        done()
        yield one


def estimate(values: Sequence[float | None]) -> Estimate | None:
    """The mean of what was measured and how sure it is."""
    measured = np.array([value for value in values if value is not None], float)
    if not len(measured):
        return None
    mean, number = float(measured.mean()), len(measured)
    if number < 2:
        return Estimate(mean, None)
    error = float(measured.std(ddof=1)) / number**0.5
    return Estimate(mean, float(student.ppf((1 + _CONFIDENCE) / 2, number - 1)) * error)


def replicated_table(rows: Sequence[Replicated], title: str) -> Table:
    """The rows for people, with their intervals; latencies in milliseconds."""
    drawn = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for name in ("policy", "workers", *(heading for heading, *_ in _COLUMNS)):
        drawn.add_column(name, justify="left" if name == "policy" else "right", no_wrap=True)
    for row in rows:
        cells = []
        for _, group, name, factor, style in _COLUMNS:
            known = getattr(row, group).get(name)
            cells.append("-" if known is None else known.shown(factor, style))
        drawn.add_row(row.policy, str(row.workers), *cells)
    return drawn


_COLUMNS: tuple[tuple[str, str, str, float, str], ...] = (
    ("goodput %", "figures", "goodput", 100, ".2f"),
    ("answers/s", "figures", "throughput", 1, ",.0f"),
    ("mean ms", "figures", "mean_latency", 1e3, ".2f"),
    ("p99 ms", "figures", "p99_latency", 1e3, ".2f"),
    ("batch", "figures", "mean_batch_size", 1, ".1f"),
    ("Δ goodput %", "change", "goodput", 100, "+.2f"),
    ("Δ mean %", "change", "mean_latency", 100, "+.2f"),
    ("Δ p99 %", "change", "p99_latency", 100, "+.2f"),
)


def _run(
    make: Callable[[int], Experiment], contestants: Sequence[Contestant], seed: int
) -> list[Row]:
    experiment = make(seed)
    return [experiment.run(policy, workers) for policy, workers in contestants]


def _first(columns: Sequence[tuple[Row, ...]], workers: int) -> tuple[Row, ...]:
    return next(column for column in columns if column[0].workers == workers)


def _summed(rows: tuple[Row, ...], first: tuple[Row, ...]) -> Replicated:
    figures = {
        field.name: estimate([asdict(row)[field.name] for row in rows])
        for field in fields(Row)
        if field.name not in {"policy", "workers", "keys"}
    }
    changes = {} if rows is first else {name: _change(rows, first, name) for name in _COMPARED}
    return Replicated(rows[0].policy, rows[0].workers, figures, changes)


def _change(rows: tuple[Row, ...], first: tuple[Row, ...], name: str) -> Estimate | None:
    shares: list[float | None] = []
    for row, reference in zip(rows, first, strict=True):
        value, base = getattr(row, name), getattr(reference, name)
        shares.append(value / base - 1 if value is not None and base else None)
    return estimate(shares)
