"""What a dispatcher asks of the workers, wherever they run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from adaptive_batching.errors import WorkerStartError


@dataclass(frozen=True, slots=True)
class Health:
    """How many workers can take batches.

    Attributes:
        living: Indexes of the workers that hold a batch or could take one now, from 0.
        wanted: Workers that there should be.
        restarts: Workers started again since the beginning.
        failure: Why none is alive, once that is known; None while they start.
    """

    living: frozenset[int]
    wanted: int
    restarts: int = 0
    failure: WorkerStartError | None = None

    @property
    def alive(self) -> int:
        """How many they are."""
        return len(self.living)


class Workers(Protocol):
    """Some workers that each run one batch at a time."""

    @property
    def health(self) -> Health:
        """How they are."""
        ...

    async def start(self, on_change: Callable[[], None]) -> None:
        """Start them; returns when all are ready, calls `on_change` whenever `health` changes.

        Raises:
            WorkerStartError: A worker could not load its handler.
            HandlerNotFound: A worker process can't import it.
        """
        ...

    async def run(self, items: list[Any], worker: int, /) -> Sequence[Any]:
        """Run one batch on the worker of that index; the caller sees to it that it is idle.

        Returns whatever the handler returned; an exception may stand in an item's place.

        Raises:
            Exception: What the handler raised, as it is.
            WorkerLost: The worker died while it held the batch.
            WorkerTimeout: It took longer than the batch timeout and was killed.
        """
        ...

    async def aclose(self) -> None:
        """Stop them; nothing of them is left afterwards. Safe to call twice."""
        ...
