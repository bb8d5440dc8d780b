"""Work that is spread over processes: results come in the order of what was asked for.

Measurements of time have no use for it, simulations have: each result is the same on any process.
"""

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def spread(work: Callable[[T], R], items: Sequence[T], jobs: int) -> Iterator[R]:
    """Do the work for each item, in so many processes at a time.

    Args:
        work: A function of a module, or a partial of one: it is sent to other processes.
        items: What it is done for.
        jobs: Processes; with 1 it is done in this one.
    """
    if jobs == 1:
        yield from map(work, items)
        return
    context = multiprocessing.get_context("spawn")  # a fork would copy numpy's threads' locks
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        yield from pool.map(work, items)
