"""One stage of a pipeline: what it does, where, and whether it takes one item or many."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import isclass
from typing import Any

from adaptive_batching.allowed_sizes import Pad
from adaptive_batching.asked_limits import Asked, make_asked
from adaptive_batching.configured_handler import check_takes_a_list, configured
from adaptive_batching.core import Limits, PolicyLike, make_policy
from adaptive_batching.dispatcher import Observer
from adaptive_batching.item_costs import CostOf
from adaptive_batching.keywords import names_keywords
from adaptive_batching.units import check_flags
from adaptive_batching.workers.factory import make_workers
from adaptive_batching.workers.handler.handler import is_async, name_of
from adaptive_batching.workers.handler.warm_up import make_warm_up
from adaptive_batching.workers.interface import Workers
from adaptive_batching.workers.place import check_reaches_workers, place
from adaptive_batching.workers.placement import Placement

Wrap = Callable[[Any], Callable[[list[Any]], Any]]


@names_keywords
@dataclass(frozen=True, slots=True)
class Stage:
    """A step that every item goes through.

    Attributes:
        handler: A function or a class, as for `batched`: it takes a list if the stage batches, one
            item if it does not.
        max_batch_size: Items in a batch at the most; None for a stage that takes one item, or for
            the largest of `sizes`.
        workers: How many run at a time, or where: a number means processes for a class, threads
            for a function, tasks for an async function. Workers that connect to a socket,
            `"unix:/run/model.sock"`, always take a list, if need be of one item.
        cpus: The core, or the list of cores, of each worker process.
        policy: When a batch leaves.
        max_queue: Items in this stage, waiting or at work. When it is full, the stage before it
            keeps what it has ready, and so on up to the entrance, where `QueueFull` is raised.
        observers: Told about every batch of this stage.
        idempotent: Whether running an item twice is as good as once; see `batched`.
        examples: Items, as they reach this stage, with which each worker warms up; see `batched`.
        init_args: Keyword arguments with which each worker builds a class.
        cost: What an item costs as it reaches this stage, by a function of it; see `batched`.
        padded: Whether each item of a batch takes as long as the costliest one; see `batched`.
        max_batch_cost: No batch costs more than that; None for no limit. An item that costs more
            alone fails in this stage with `JobTooLarge`.
        sizes: Items of the batches that the handler takes, if not of any size; see `batched`.
        pad: What fills other batches up, by a function of their last item; see `batched`.
        pad_costs: Costs to which the handler pads its items; see `batched`.

    Raises:
        TypeError: The handler can't be called, or takes one item and has steps for each of many, or
            `cost` or `pad` is no plain function.
        ValueError: A limit is out of its range, `padded` or `max_batch_cost` is given without
            `cost`, `pad` without `sizes`, or `max_batch_size` is not one of `sizes`, or
            `pad` or `init_args` is given for workers that connect by themselves; the message says
            what was expected.
    """

    handler: Callable[..., Any]
    max_batch_size: int | None = None
    workers: int | str | Placement = 1
    cpus: Sequence[int | Sequence[int]] | None = None
    policy: PolicyLike = "cork"
    max_queue: int = 256
    observers: Sequence[Observer] = ()
    idempotent: bool = False
    examples: Sequence[Any] = ()
    init_args: Mapping[str, Any] | None = None
    cost: CostOf | None = None
    padded: bool = False
    max_batch_cost: float | None = None
    sizes: Sequence[int] | None = None
    pad: Pad | None = None
    pad_costs: Sequence[float] | None = None

    def __post_init__(self) -> None:
        steps = hasattr(self.handler, "preprocess") or hasattr(self.handler, "postprocess")
        if self.takes_one and isclass(self.handler) and steps:
            expected = "expected max_batch_size for a handler with preprocess or postprocess"
            raise TypeError(f"{expected}, which are for each item of a list; {self} takes one item")
        make_policy(self.policy)
        check_flags(idempotent=self.idempotent)
        check_reaches_workers(self._placement, self.init_args, self.pad)
        check_takes_a_list(self._configured())  # or one item, which is one argument, too
        if self.limits.max_queue < self.limits.max_batch_size:
            full = f"a batch of max_batch_size={self.limits.max_batch_size}"
            raise ValueError(f"max_queue: expected room for {full}, got {self.max_queue}")

    def __str__(self) -> str:
        return name_of(self.handler)

    @property
    def takes_one(self) -> bool:
        """Whether the handler is called with one item."""
        builds = self._placement.builds_handlers
        return self.max_batch_size is None and self.sizes is None and builds

    @property
    def limits(self) -> Limits:
        """The limits of its dispatcher; each item brings its own deadline."""
        return self._asked.limits

    @property
    def cost_of(self) -> CostOf:
        """What an item costs; raises `CostError` where the stage's function is to blame."""
        return self._asked.cost_of or _nothing

    def make_workers(self, wrap: Wrap | None = None) -> Workers:
        """Make its workers, not yet started.

        Args:
            wrap: Takes the handler, ready to be called with what it takes, and returns what to
                call with a list instead; by default, a loop where that is one item.
        """
        by_default = one_by_one if self.takes_one else None
        asked = self._asked
        warm_up = make_warm_up(self.examples, asked.limits, asked.cost_of)
        return make_workers(self._configured(), self._placement, wrap or by_default, warm_up)

    @property
    def _asked(self) -> Asked:
        return make_asked(
            self.max_batch_size,
            None,
            self.max_queue,
            cost=self.cost,
            padded=self.padded,
            max_batch_cost=self.max_batch_cost,
            sizes=self.sizes,
            pad=self.pad,
            pad_costs=self.pad_costs,
            default=1,
        )

    @property
    def _placement(self) -> Placement:
        return place(self.handler, self.workers, self.cpus)

    def _configured(self) -> Any:
        asked = self._asked
        return configured(
            self.handler,
            self.init_args,
            takes_one=self.takes_one,
            padding=asked.padding,
            costs=asked.limits.costs,
        )


def _nothing(_item: Any) -> float:
    return 0.0


def one_by_one(handler: Callable[[Any], Any]) -> Callable[[list[Any]], Any]:
    """Turn a handler of one item into one of a list."""
    if is_async(handler):

        async def each_awaited(items: list[Any]) -> list[Any]:
            return [await handler(item) for item in items]

        return each_awaited

    def each(items: list[Any]) -> list[Any]:
        return [handler(item) for item in items]

    return each
