"""Looks over the dispatcher's shoulder: what batches and requests took as the service saw them."""

import asyncio
from time import monotonic
from typing import cast

import msgspec

from adaptive_batching.core import Batch, BatchRecord
from adaptive_batching.dispatcher.calls import Call


class Watch:
    """Observes one dispatcher whose items are numbered, as `send` numbers them.

    Args:
        loop: The dispatcher's.

    Attributes:
        taken: Of each batch, its size and the seconds from its release until its worker could have
            the next one, which is after the turn of the loop in which the scheduler is asked.
        latencies: By number, the seconds from an item's arrival to the same instant.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.taken: list[tuple[int, float]] = []
        self.latencies: dict[int, float] = {}
        self._loop = loop
        self._records: list[BatchRecord] = []

    def batch_ended(self, batch: Batch, record: BatchRecord) -> None:
        """Called by the dispatcher, which is going to look for the next batch in the next turn."""
        self._records.append(record)
        self._loop.call_soon(self._loop.call_soon, self._could_leave, batch)

    def batches(self, first: float) -> list[BatchRecord]:
        """The batches on the generator's clock, by which the first request came at `first`."""
        if not self._records:
            return []
        zero = min(batch.oldest_arrived for batch in self._records) - first
        return [
            batch._replace(
                released=batch.released - zero,
                finished=batch.finished - zero,
                oldest_arrived=batch.oldest_arrived - zero,
            )
            for batch in self._records
        ]

    def _could_leave(self, batch: Batch) -> None:
        now = monotonic()
        self.taken.append((batch.size, now - batch.released))
        for call in cast("list[Call[bytes, bytes]]", batch.jobs):
            *_, number = msgspec.json.decode(call.item)
            self.latencies[number] = now - call.arrived
