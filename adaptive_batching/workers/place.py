"""Finds out where a handler runs if only a number of workers is named, or their kind.

Placements outside this process are imported when one is asked for, as their workers are.
"""

from collections.abc import Callable, Sequence
from inspect import isclass
from typing import Any

from adaptive_batching.workers.external.socket_path import PREFIX
from adaptive_batching.workers.handler.handler import is_async
from adaptive_batching.workers.placement import Placement, Tasks, Threads


def _processes(count: int, cpus: Sequence[int | Sequence[int]] | None = None) -> Placement:
    from adaptive_batching.workers.elsewhere import Processes  # noqa: PLC0415

    return Processes(count, cpus=cpus)


def _ray(count: int) -> Placement:
    from adaptive_batching.workers.elsewhere import RayWorkers  # noqa: PLC0415

    return RayWorkers(count)


def _external(path: str) -> Placement:
    from adaptive_batching.workers.elsewhere import ExternalWorkers  # noqa: PLC0415

    return ExternalWorkers(path)


_COUNTED: dict[str, Callable[[int], Placement]] = {
    "tasks": Tasks,
    "threads": Threads,
    "processes": _processes,
    "ray": _ray,
}


def place(
    handler: Any, workers: int | str | Placement, cpus: Sequence[int | Sequence[int]] | None = None
) -> Placement:
    """Where a handler runs if only a number of workers is named, or their kind as a text.

    A class runs in processes, an async function on the event loop, any other in threads. Texts are
    `threads:2`, `processes:2`, `ray:4`, `unix:/run/model.sock`.

    Raises:
        ValueError: Cores are named for something that isn't a process, or named twice, or the
            text names nothing.
    """
    if isinstance(workers, str):
        workers = _named(workers)
    if isclass(handler) and not isinstance(workers, Placement):
        return _processes(workers, cpus)
    if cpus is not None:
        msg = "only worker processes are pinned: expected cpus with a class, or in Processes(cpus=)"
        raise ValueError(msg)
    if isinstance(workers, Placement):
        return workers
    return Tasks(workers) if is_async(handler) else Threads(workers)


def check_reaches_workers(placement: Placement, init_args: object, pad: object) -> None:
    """See whether workers get what a handler is to be built and called with.

    Raises:
        ValueError: They build their handler by themselves.
    """
    if placement.builds_handlers:
        return
    for name, given, instead in (
        ("init_args", init_args or None, "let the class that they load need none"),
        ("pad", pad, "start them with --sizes, and they repeat a batch's last item"),
    ):
        if given is not None:
            expected = "expected none, for workers that connect build their handlers themselves"
            raise ValueError(f"{name}: {expected}: {instead}; got {given!r}")


def _named(workers: str) -> Placement:
    """Read `ray:4`, or `unix:/run/model.sock`."""
    kind, _, rest = workers.partition(":")
    if workers.startswith(PREFIX):
        return _external(workers.removeprefix(PREFIX))
    if kind in _COUNTED and rest.isdecimal():
        return _COUNTED[kind](int(rest))
    kinds = ", ".join(f"{kind}:2" for kind in _COUNTED)
    msg = f"workers: expected a number, {kinds} or {PREFIX}/run/model.sock, got {workers!r}"
    raise ValueError(msg)
