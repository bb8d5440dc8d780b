"""What a program asks of batches, by the arguments that every face takes."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from adaptive_batching.allowed_sizes import Pad, largest_batch, make_padding, make_sizes
from adaptive_batching.core import Limits
from adaptive_batching.item_costs import CostOf, checked_cost, make_costs
from adaptive_batching.units import Duration, seconds_of
from adaptive_batching.workers.handler.padding import Padding


@dataclass(frozen=True, slots=True)
class Asked:
    """What a program asks of batches, with what makes its items and its handler keep to it.

    Attributes:
        limits: The limits of batches.
        cost_of: What an item costs; None if all cost the same.
        padding: What fills the handler's batches up; None if it takes batches of any size.
    """

    limits: Limits
    cost_of: CostOf | None
    padding: Padding | None

    @classmethod
    def of(cls, limits: Limits, cost: CostOf | None, pad: Pad | None) -> "Asked":
        """These limits, with the functions of a program that go with them.

        Raises:
            TypeError: `pad` is no plain function.
            ValueError: There is one, and there are no sizes to fill up to.
        """
        cost_of = None if cost is None else checked_cost(cost, limits.costs)
        return cls(limits, cost_of, make_padding(limits, pad))


def make_asked(
    max_batch_size: int | None,
    max_latency: Duration | None,
    max_queue: int,
    *,
    cost: CostOf | None,
    padded: bool,
    max_batch_cost: float | None,
    sizes: Sequence[int] | None,
    pad: Pad | None,
    pad_costs: Sequence[float] | None,
    default: int = 64,
) -> Asked:
    """What these arguments ask of batches; for their meaning see `batched`.

    Args:
        max_batch_size: Items; None for the largest of `sizes`, or for the default.
        max_latency: Seconds, a text such as `100ms` or a timedelta; None for no limit.
        max_queue: Items.
        cost: What says what an item costs; None if all cost the same.
        padded: Whether a batch is padded to its costliest item.
        max_batch_cost: None for no limit.
        sizes: Allowed sizes of batches; None for any.
        pad: What fills a batch up; None for its last item.
        pad_costs: Costs to which items are padded; None if they are not.
        default: Items of a batch, where nothing is said of them.

    Raises:
        TypeError: `cost` or `pad` is no function of an item, or `sizes` or `pad_costs` is no list.
        ValueError: A limit is out of its range, or contradicts another.
    """
    costs = make_costs(cost, padded=padded, max_batch_cost=max_batch_cost, pad_costs=pad_costs)
    latency = inf if max_latency is None else seconds_of("max_latency", max_latency)
    allowed = make_sizes(sizes)
    size = largest_batch(max_batch_size, allowed, default)
    return Asked.of(Limits(size, latency, max_queue, costs, allowed), cost, pad)
