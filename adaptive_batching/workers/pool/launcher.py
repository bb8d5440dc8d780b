"""What a pool asks of those it keeps, whatever they are."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol


class PoolWorker(Protocol):
    """A worker that is started once, runs one batch at a time and does not come back."""

    @property
    def alive(self) -> bool:
        """Whether it can take batches, or holds one."""

    @property
    def pid(self) -> int | None:
        """The process id, once there is a process on this machine."""

    @property
    def fate(self) -> str:
        """How it ended, once it has: "was killed by SIGKILL"."""

    async def start(self, timeout: float, /) -> None:  # noqa: ASYNC109 - kills, not only cancels
        """Start it and wait until it is ready, at most `timeout` seconds.

        Raises:
            HandlerNotFound: It can't import its handler.
            WorkerStartError: It can't load it, died or took too long.
        """

    async def run(self, items: list[Any], timeout: float, /) -> Sequence[Any]:  # noqa: ASYNC109
        """Run one batch; after `timeout` seconds without an answer it is killed.

        Raises:
            Exception: What the handler raised.
            WorkerLost: It died.
            WorkerTimeout: It was killed.
        """

    async def exited(self) -> None:
        """Wait until nothing is left of it."""

    async def aclose(self) -> None:
        """End it; returns when it is gone."""


class Launcher(Protocol):
    """Makes the workers of one pool."""

    @property
    def most(self) -> int | None:
        """How many it can make; None for any number."""

    async def prepare(self) -> None:
        """Find out whether workers can be had at all; called once before the first.

        Raises:
            Exception: They can't; the message says what to do.
        """

    def launch(self, number: int, on_lost: Callable[[], None]) -> PoolWorker:
        """Make a worker, not yet started, for a place in the pool.

        Args:
            number: The place, from 0.
            on_lost: Called once when it can take no more batches.
        """
