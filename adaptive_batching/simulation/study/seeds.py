"""Runs contestants under several seeds, as many seeds at a time as there are cores."""

import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

import numpy as np

from adaptive_batching.interrupts import interrupt_held
from adaptive_batching.simulation.study.experiment import Experiment
from adaptive_batching.simulation.study.report import Row
from adaptive_batching.workers.pinning import available

T = TypeVar("T")

_FEW = 200_000  # requests in all: they are simulated before other processes have imported NumPy

Contestant = tuple[str, int]
"""A policy and its number of workers."""


def each_seed(
    make: Callable[[int], Experiment],
    contestants: Sequence[Contestant],
    seeds: Sequence[int],
    *,
    done: Callable[[], None] = lambda: None,
) -> list[list[Row]]:
    """Run every contestant with every seed.

    Args:
        make: Makes the experiment of a seed; it is sent to other processes.
        contestants: The policies, each with its number of workers.
        seeds: One replication each.
        done: Called when one of them is done.

    Returns:
        For each seed, the rows of the contestants.
    """
    cores = len(available())
    run = partial(_run, make, contestants)
    if min(cores, len(seeds)) == 1 or _few(make(seeds[0]), len(contestants) * len(seeds)):
        return list(_counted(map(run, seeds), done))
    context = multiprocessing.get_context("spawn")  # a fork would copy numpy's threads' locks
    processes = ProcessPoolExecutor(min(cores, len(seeds)), mp_context=context)
    with processes as pool, _none_left_behind():
        with _unheard():
            running = [pool.submit(run, seed) for seed in seeds]
        for _ in as_completed(running):
            done()
        return [each.result() for each in running]


def _run(
    make: Callable[[int], Experiment], contestants: Sequence[Contestant], seed: int
) -> list[Row]:
    experiment = make(seed)
    return [experiment.run(policy, workers) for policy, workers in contestants]


def _few(experiment: Experiment, runs: int) -> bool:
    """Whether it is known that so many runs are over soon."""
    arrivals = experiment.arrivals
    return isinstance(arrivals, np.ndarray) and len(arrivals) * runs <= _FEW


def _counted(each: Iterable[T], done: Callable[[], None]) -> Iterator[T]:
    for one in each:
        done()
        yield one


@contextmanager
def _unheard() -> Iterator[None]:
    """Processes that begin here never hear Ctrl-C: they may be importing still.

    The mask is theirs: here another thread of NumPy's may take the signal, of which the main thread
    is told all the same, and a process whose parent breaks off says so.
    """
    with interrupt_held():
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
