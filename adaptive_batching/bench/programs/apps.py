"""What the HTTP benchmarks serve, by `adaptive-batching serve`."""

import time
from typing import Any

from adaptive_batching.marshal.service.service import Service

throughput = Service("throughput")
in_process = Service("in process")
latency = Service("latency")
overload = Service("overload")


@in_process.endpoint("/no-op", max_batch_size=64)
async def no_op(items: list[Any]) -> list[Any]:
    """Return the items; no other process has a part in it."""
    return items


@throughput.endpoint("/no-op", max_batch_size=64)
class NoOp:
    """A model that costs nothing."""

    def __call__(self, items: list[Any]) -> list[Any]:
        """Return the items."""
        return items


@latency.endpoint("/cork", policy="cork", max_batch_size=64)
@latency.endpoint("/greedy", policy="greedy", max_batch_size=64)
@latency.endpoint("/window-5ms", policy="window:5ms", max_batch_size=64)
class Model:
    """Sleeps as long as a small model computes on a GPU."""

    fixed = 5e-3
    per_item = 5e-5

    def __call__(self, items: list[Any]) -> list[Any]:
        """Return the items."""
        time.sleep(self.fixed + self.per_item * len(items))
        return items


OVERLOAD_PROMISE = 0.1  # seconds
OVERLOAD_BATCH = (
    16  # two of them fit into max_latency: a request that missed one can be in the next
)


@overload.endpoint("/model", max_latency=OVERLOAD_PROMISE, max_batch_size=OVERLOAD_BATCH)
class OverloadedModel(Model):
    """So slow that five times its capacity can be sent, received and refused on one machine."""

    fixed = 20e-3
    per_item = 2e-3


OVERLOAD_CAPACITY = OVERLOAD_BATCH / (
    OverloadedModel.fixed + OVERLOAD_BATCH * OverloadedModel.per_item
)
"""Requests a second."""
