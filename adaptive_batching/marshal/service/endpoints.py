"""What a service serves, as it was described: nothing of it runs yet."""

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from adaptive_batching.core import Limits, PolicyLike
from adaptive_batching.item_costs import CostOf
from adaptive_batching.marshal.service.conversion import Conversion
from adaptive_batching.marshal.service.costs import cost_of_bodies, reads_items
from adaptive_batching.marshal.service.shared_workers import SharedWorkers
from adaptive_batching.payloads.contract import Contract
from adaptive_batching.pipeline import Pipeline
from adaptive_batching.workers.placement import Placement

HEALTH = ("/healthz", "/readyz")
PAGES = (*HEALTH, "/metrics")
"""Where each service says how it is."""

LONGEST_KEY = 256  # characters of a header: the last thousand keys are remembered

_LARGEST_BODY = 8 * 2**20  # bytes
_LARGEST_BODY_READ = 2**20  # read in about 10 ms, for which the process answers nothing else


def largest_body(max_body: int | None, key: object, cost: object = None) -> int:
    """Return the bytes that the body of an item may have, which are fewer where we read it, too."""
    if max_body is not None:
        return max_body
    reads = any(map(reads_items, (key, cost)))
    return _LARGEST_BODY_READ if reads else _LARGEST_BODY


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One path of a service.

    Attributes:
        path: Where it is.
        handler: Takes a list of items and returns a list of results.
        placement: Where the handler runs, or what it shares that with.
        limits: Batch size, latency, queue.
        policy: When a batch leaves.
        max_body: Bytes that a body may have.
        idempotent: Whether running an item twice is as good as once.
        contract: What bodies hold.
        examples: Bodies with which workers warm up, in the first codec.
        runs: The handler with what its workers have to know besides; see `configured`.
        key: The name of a header, or what says the key of an item; None for no keys.
        many: Whether a request brings a list of items.
        cost: `"bytes"`, or what says what an item costs; None if all cost the same.
    """

    path: str
    handler: Callable[..., Any]
    placement: Placement | SharedWorkers
    limits: Limits
    policy: PolicyLike
    max_body: int
    idempotent: bool
    contract: Contract
    examples: tuple[bytes, ...]
    runs: Any
    key: str | Callable[[Any], Hashable] | None = None
    many: bool = False
    cost: str | CostOf | None = None

    @property
    def most(self) -> int | None:
        """Items that a request may bring; None if it brings one, and no list."""
        return self.limits.max_queue if self.many else None

    @property
    def cost_of(self) -> CostOf | None:
        """What says the cost of an item as it goes to the handler; None if all cost the same."""
        if self.cost is None:
            return None
        return cost_of_bodies(self.cost, self.contract, self.limits.costs)

    @property
    def conversion(self) -> Conversion:
        """What makes its handler one of bodies."""
        return Conversion(self.contract.item, self.contract.result, tagged=self.contract.has_choice)

    @property
    def labels(self) -> list[str]:
        """What its batches are reported under, in metrics and recordings."""
        return [self.path]


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineEndpoint:
    """One path of a service, with a pipeline behind it.

    Attributes:
        path: Where it is.
        pipeline: What a body's item goes through.
        max_body: Bytes that a body may have.
        contract: What bodies hold.
        examples: Bodies with which the first stage warms up, in the first codec.
        key: The name of a header, or what says the key of an item; None for no keys.
        many: Whether a request brings a list of items.
    """

    path: str
    pipeline: Pipeline[Any, Any]
    max_body: int
    contract: Contract
    examples: tuple[bytes, ...]
    key: str | Callable[[Any], Hashable] | None = None
    many: bool = False

    @property
    def most(self) -> int | None:
        """Items that a request may bring; None if it brings one, and no list."""
        return self.pipeline.stages[0].max_queue if self.many else None

    @property
    def labels(self) -> list[str]:
        """What the batches of its stages are reported under: `/predict:Decode`."""
        seen: Counter[str] = Counter()
        labels = []
        for stage in self.pipeline.stages:
            name = str(stage)
            seen[name] += 1
            again = f"-{seen[name]}" if seen[name] > 1 else ""
            labels.append(f"{self.path}:{name}{again}")
        return labels
