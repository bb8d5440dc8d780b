"""What a dispatcher asks of the workers, wherever they run."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from math import inf
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, runtime_checkable

from adaptive_batching.errors import CrashLoop, WorkerStartError
from adaptive_batching.workers.handler.warm_up import Timing


class Health(NamedTuple):
    """How many workers can take batches.

    Attributes:
        living: Indexes of the workers that hold a batch or could take one now, from 0.
        wanted: Workers that there should be; None if others decide how many come.
        restarts: Workers started again since the beginning because they had died.
        failure: Why none is alive, once that is known; None while they start.
        renewed: Workers that made way for a fresh one since the beginning.
        crash_loop: Why no requests should be sent here although some may be alive; None if they
            may.
        identities: By index, what the living, at least, are called, where an index may pass from
            one worker to another of which nothing is known.
        warm_up: What the examples took on each worker when they were started.
        back_at: When one is expected to be alive again (seconds on the monotonic clock), where none
            is and that is known.
    """

    living: frozenset[int]
    wanted: int | None
    restarts: int = 0
    failure: WorkerStartError | None = None
    renewed: int = 0
    crash_loop: CrashLoop | None = None
    identities: Mapping[int, Hashable] = MappingProxyType({})
    warm_up: tuple[Timing, ...] = ()
    back_at: float = -inf

    @property
    def alive(self) -> int:
        """How many they are."""
        return len(self.living)

    @property
    def missing(self) -> int:
        """How many there should be more."""
        return 0 if self.wanted is None else self.wanted - self.alive


class Workers(Protocol):
    """Some workers that each run one batch at a time."""

    @property
    def health(self) -> Health:
        """How they are."""

    async def start(self, on_change: Callable[[], None]) -> None:
        """Start them; returns when all are ready, calls `on_change` whenever `health` changes.

        Raises:
            WorkerStartError: A worker could not load its handler.
            HandlerNotFound: A worker process can't import it.
        """

    async def run(self, items: list[Any], worker: int, /) -> Sequence[Any]:
        """Run one batch on the worker of that index; the caller sees to it that it is idle.

        Returns whatever the handler returned; an exception may stand in an item's place, and
        `CallRaised` for what a call of some of the items raised.

        Raises:
            Exception: What the handler raised, as it is.
            WorkerLost: The worker died while it held the batch.
            WorkerTimeout: It took longer than the batch timeout and was killed.
        """

    async def aclose(self) -> None:
        """Stop them; nothing of them is left afterwards. Safe to call twice."""


@runtime_checkable
class Restartable(Workers, Protocol):
    """Workers that can be renewed while they work."""

    async def restart(self) -> None:
        """Put a fresh worker in the place of each, one after the other; no batch is lost by it.

        Raises:
            WorkerStartError: One could not be started; it and those after it stay as they are.
            Draining: They were stopped meanwhile.
        """


@runtime_checkable
class Scalable(Workers, Protocol):
    """Workers that there can be more or fewer of while they work."""

    async def scale(self, count: int) -> None:
        """Have so many from now on; returns when the new ones are ready and the others have left.

        A worker that leaves ends the batch that it holds.

        Raises:
            WorkerStartError: A new one could not be started; there are as many as before.
            Draining: They were stopped meanwhile.
            ValueError: There can't be so many.
        """
