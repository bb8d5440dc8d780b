"""Cores, and how a process keeps to some of them: on its own core no other takes its time."""

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress

CAN_PIN = hasattr(os, "sched_setaffinity")
"""Whether this system keeps a process to some cores: macOS does not."""

_homes: list[frozenset[int]] = []  # where this process could run before each `pinned`


def available() -> frozenset[int]:
    """The cores that workers may have, also while this process is pinned to some of them."""
    if not CAN_PIN:
        return frozenset(range(os.cpu_count() or 1))
    return _homes[0] if _homes else frozenset(os.sched_getaffinity(0))


def unpinned() -> tuple[int, ...] | None:
    """Where a worker runs that is not pinned; None for wherever this process does."""
    return tuple(sorted(_homes[0])) if _homes else None


def check_cpus(cpus: Collection[int]) -> None:
    """See whether the machine has them, and lets us have them.

    Raises:
        ValueError: It does not.
    """
    if not CAN_PIN:
        raise ValueError("expected no cpus here, for only Linux keeps a process to some cores")
    there = available()
    unknown = [cpu for cpu in cpus if cpu not in there]
    if unknown or not cpus:
        raise ValueError(f"expected cpus out of {sorted(there)}, got {unknown or 'none'}")


def pin(cpus: Collection[int]) -> None:
    """Keep this process to some cores, together with the threads that it has already."""
    for thread in _threads():
        _move(thread, cpus)


@contextmanager
def pinned(cpus: Collection[int] | None) -> Iterator[None]:
    """Keep this process to some cores while the block runs; None leaves it where it is.

    Afterwards each thread may run where it could before, and those that came meanwhile where the
    process could. Workers that are started meanwhile are not pinned by it.

    Raises:
        ValueError: The machine does not have the cores.
    """
    if cpus is None:
        yield
        return
    check_cpus(cpus)
    home = frozenset(os.sched_getaffinity(0))
    before = {thread: os.sched_getaffinity(thread) for thread in _threads()}
    _homes.append(home)
    pin(cpus)
    try:
        yield
    finally:
        _homes.remove(home)
        for thread in _threads():
            _move(thread, before.get(thread, home))


def _threads() -> list[int]:
    return list(map(int, os.listdir("/proc/self/task")))


def _move(thread: int, cpus: Collection[int]) -> None:
    with suppress(ProcessLookupError):  # it has ended meanwhile
        os.sched_setaffinity(thread, cpus)
