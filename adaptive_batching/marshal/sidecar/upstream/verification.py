"""Does a server answer a batch as it would its members alone? A few are asked for twice to see."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from adaptive_batching.errors import BatchingError
from adaptive_batching.marshal.sidecar.upstream.messages import Forwarded, Reply
from adaptive_batching.wire.comparison import same

TOLERANCE = 1e-3  # relative; half precision and other orders of summation stay below

Ask = Callable[[Forwarded], Awaitable[Reply]]


@dataclass(slots=True)
class Verified:
    """Samples by how they ended.

    Attributes:
        same: They were answered alone as in their batches.
        different: They were not.
        unanswered: They were not answered alone.
        skipped: Another one was under way, so that they were not sent.
    """

    same: int = 0
    different: int = 0
    unanswered: int = 0
    skipped: int = 0


class Verification:
    """Compares a share of the answers; one at a time, so that a server isn't asked much for it.

    Args:
        share: Of the requests that share batches; 0 for none.
        tolerance: Share by which numbers may differ; see `wire.comparison`.
        on_difference: Told of a request with answers that differ.
    """

    def __init__(
        self, share: float, tolerance: float, on_difference: Callable[[Forwarded], None]
    ) -> None:
        self.counts = Verified()
        self._share = share
        self._tolerance = tolerance
        self._on_difference = on_difference
        self._owed = 0.0  # samples
        self._task: asyncio.Task[None] | None = None

    def look(self, items: Sequence[Forwarded], replies: Sequence[Reply], ask: Ask) -> None:
        """A batch was answered; maybe one of its members is asked for alone."""
        self._owed += self._share * len(items)
        if self._owed < 1 or self._task is not None:
            return
        due = int(self._owed)
        self._owed -= due
        self.counts.skipped += due - 1
        index = (self.counts.same + self.counts.unanswered) % len(items)
        self._task = asyncio.create_task(self._verify(items[index], replies[index], ask))
        self._task.add_done_callback(self._done)

    async def aclose(self) -> None:
        """Compare no more."""
        if self._task is not None and self._task.get_loop() is asyncio.get_running_loop():
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _verify(self, item: Forwarded, reply: Reply, ask: Ask) -> None:
        try:
            alone = await ask(item)
        except BatchingError:
            self.counts.unanswered += 1
            return
        if alone.status != reply.status:
            self.counts.unanswered += 1
        elif same(reply.message, alone.message, self._tolerance):
            self.counts.same += 1
        else:
            self.counts.different += 1
            self._on_difference(item)

    def _done(self, _: asyncio.Task[None]) -> None:
        self._task = None
