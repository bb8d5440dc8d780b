"""The limits that a program asks for, by the arguments that every face takes."""

from collections.abc import Sequence
from math import inf

from adaptive_batching.allowed_sizes import largest_batch, make_sizes
from adaptive_batching.core import Limits
from adaptive_batching.item_costs import make_costs
from adaptive_batching.units import Duration, seconds_of


def make_limits(
    max_batch_size: int | None,
    max_latency: Duration | None,
    max_queue: int,
    *,
    cost: object,
    padded: bool,
    max_batch_cost: float | None,
    pad_costs: Sequence[float],
    sizes: Sequence[int],
    default: int = 64,
) -> Limits:
    """The limits of batches; for the arguments see `batched`.

    Args:
        max_batch_size: Items; None for the largest of `sizes`, or for the default.
        max_latency: Seconds, a text such as `100ms` or a timedelta; None for no limit.
        max_queue: Items.
        cost: What says what an item costs; None if all cost the same.
        padded: Whether a batch is padded to its costliest item.
        max_batch_cost: None for no limit.
        pad_costs: Costs to which items are padded.
        sizes: Allowed sizes of batches; empty for any.
        default: Items of a batch, where nothing is said of them.

    Raises:
        TypeError: `cost` is no function of an item, or `sizes` or `pad_costs` is no list.
        ValueError: A limit is out of its range, or contradicts another.
    """
    costs = make_costs(cost, padded=padded, max_batch_cost=max_batch_cost, pad_costs=pad_costs)
    latency = inf if max_latency is None else seconds_of("max_latency", max_latency)
    allowed = make_sizes(sizes)
    size = largest_batch(max_batch_size, allowed, default)
    return Limits(size, latency, max_queue, costs, allowed)
