"""`cooperative`: a handler of lists that plain threads call with one item."""

import time
from collections.abc import Callable, Mapping, Sequence
from inspect import isclass
from typing import TYPE_CHECKING, Any, Concatenate, Generic, TypeVar, overload

from adaptive_batching.allowed_sizes import Pad
from adaptive_batching.asked_limits import Asked, make_asked
from adaptive_batching.configured_handler import check_takes_a_list, configured
from adaptive_batching.cooperation.driver import ThreadDriver
from adaptive_batching.cooperation.handle import Handle
from adaptive_batching.cooperation.lock import ExecutionLock
from adaptive_batching.core import Limits, PolicyLike, Scheduler, make_policy
from adaptive_batching.item_costs import CostOf
from adaptive_batching.keywords import names_keywords
from adaptive_batching.units import Duration
from adaptive_batching.workers.handler.handler import build, is_async, name_of

if TYPE_CHECKING:
    import numpy as np

    _Arrays = np.ndarray[Any, Any] | Mapping[str, object]

T = TypeVar("T")
R = TypeVar("R")
A = TypeVar("A", bound="_Arrays")


class Cooperative(Generic[T, R]):
    """Collects the items of many threads into batches, which one of these threads runs.

    Args:
        handler: Takes a list of items, returns as many results in their order; an exception may
            stand in a result's place. If its annotations say so, it takes one array with a row for
            every item, or several by name, and may return such.
        limits: Batch size, latency, queue.
        policy: Name, class or object; see `core.policies`.
        lock: Held while the handler runs; one of its own by default.
        clock: Monotonic seconds.
        cost: What an item costs; needed where the limits have costs.
        pad: What fills batches up where the limits have sizes; see `batched`.

    Raises:
        TypeError: The handler does not take a list, nor arrays that say what one item is.
    """

    def __init__(
        self,
        handler: Callable[[list[T]], Sequence[R | BaseException]] | Callable[..., Any],
        limits: Limits,
        *,
        policy: PolicyLike = "greedy",
        lock: ExecutionLock | None = None,
        clock: Callable[[], float] = time.monotonic,
        cost: CostOf | None = None,
        pad: Pad | None = None,
    ) -> None:
        self.lock = ExecutionLock() if lock is None else lock
        asked = Asked.of(limits, cost, pad)
        runs = configured(handler, padding=asked.padding, costs=limits.costs)
        check_takes_a_list(runs)
        call, _ = build(runs)
        self._cost_of = asked.cost_of
        scheduler = Scheduler(make_policy(policy), limits)
        self._driver = ThreadDriver(call, name_of(runs), scheduler, self.lock, clock)

    def __repr__(self) -> str:
        return f"<Cooperative {self._driver!r}>"

    def call(self, item: T) -> R:
        """Let one item join a batch and return its own result.

        Raises:
            ReentrantCall: The calling thread holds the execution lock.
            Refused: Before any work was done: Overloaded, QueueFull, JobTooLarge.
            CostError: `cost` raised for this item, or returned no such number.
            DeadlineExceeded: It waited past its deadline.
            Exception: What the handler raised, or returned in this item's place.
        """
        self.lock.check()
        return self.submit(item).result()

    def call_many(self, items: Sequence[T]) -> list[R]:
        """Like `call` with several items, which stay together in one batch.

        Raises:
            JobTooLarge: They are more, or cost more, than a batch may.
            ValueError: There are none.
            Exception: As `call`; that of the first item which has one.
        """
        self.lock.check()
        return self.submit_many(items).result()

    def submit(self, item: T) -> Handle[R]:
        """Let one item wait for a batch; ask the handle for its result.

        Nothing runs before a caller asks for a result: there is no thread but the callers'.
        """
        return self._driver.submit([item], self._costs_of([item]), single=True)

    def submit_many(self, items: Sequence[T]) -> Handle[list[R]]:
        """Like `submit` with several items, which stay together in one batch."""
        listed = list(items)
        return self._driver.submit(listed, self._costs_of(listed), single=False)

    def _costs_of(self, items: Sequence[T]) -> list[float]:
        """What each of one caller's items costs; nothing where all cost the same."""
        return [] if self._cost_of is None else [*map(self._cost_of, items)]


@overload
def cooperative(
    handler: Callable[[list[T]], Sequence[R | BaseException]],
    *,
    max_batch_size: int | None = None,
    max_latency: Duration | None = None,
    policy: PolicyLike = "greedy",
    max_queue: int = 65_536,
    lock: ExecutionLock | None = None,
    cost: CostOf | None = None,
    padded: bool = False,
    max_batch_cost: float | None = None,
    sizes: Sequence[int] | None = None,
    pad: Pad | None = None,
    pad_costs: Sequence[float] | None = None,
) -> Cooperative[T, R]: ...
@overload
def cooperative(
    handler: Callable[Concatenate[A, ...], Any],
    *,
    max_batch_size: int | None = None,
    max_latency: Duration | None = None,
    policy: PolicyLike = "greedy",
    max_queue: int = 65_536,
    lock: ExecutionLock | None = None,
    cost: CostOf | None = None,
    padded: bool = False,
    max_batch_cost: float | None = None,
    sizes: Sequence[int] | None = None,
    pad: Pad | None = None,
    pad_costs: Sequence[float] | None = None,
) -> Cooperative[A, Any]: ...
@names_keywords
def cooperative(
    handler: Callable[..., Any],
    *,
    max_batch_size: int | None = None,
    max_latency: Duration | None = None,
    policy: PolicyLike = "greedy",
    max_queue: int = 65_536,
    lock: ExecutionLock | None = None,
    cost: CostOf | None = None,
    padded: bool = False,
    max_batch_cost: float | None = None,
    sizes: Sequence[int] | None = None,
    pad: Pad | None = None,
    pad_costs: Sequence[float] | None = None,
) -> Cooperative[Any, Any]:
    """Let plain threads share the calls of a handler of lists: `queue.call(x)` gives x's result.

    There is no thread of its own and no event loop: a thread that waits for a result runs batches
    for all. By default a batch leaves as soon as the one before it has ended.

    Args:
        handler: Takes a list, returns as many results in the same order; or, if its annotations
            say so, takes and returns one array with a row for every item, as for `batched`.
        max_batch_size: Items in a batch at the most: 64, or the largest of `sizes`.
        max_latency: Seconds from call to result, or a text such as `"100ms"`; None promises
            nothing.
        policy: When a batch leaves.
        max_queue: Items that may wait.
        lock: Shared with other code that must not run at the same time as the handler.
        cost: What one item costs, by a function of it that the calling thread runs; see `batched`.
        padded: Whether each item of a batch takes as long as the costliest one; see `batched`.
        max_batch_cost: No batch costs more than that; None for no limit.
        sizes: Items of the batches that the handler takes, if not of any size; see `batched`.
        pad: What fills other batches up, by a function of their last item; see `batched`.
        pad_costs: Costs to which the handler pads its items; see `batched`.

    Raises:
        TypeError: The handler is no plain function of a list or of arrays, `cost` or `pad` is none
            of an item, or the lock can't say which thread holds it.
        ValueError: A limit is out of its range, `padded` or `max_batch_cost` is given without
            `cost`, `pad` without `sizes`, or `max_batch_size` is not one of `sizes`; the
            message says what was expected.
    """
    if isclass(handler):
        expected = "expected a plain function of a list, or an object that can be called like one"
        raise TypeError(
            f"handler: {expected}, got the class {handler.__qualname__}: make one of it"
        )
    if is_async(handler) or not callable(handler):
        expected = "expected a plain function of a list"
        raise TypeError(f"handler: {expected}, got {handler!r}; for async ones there is @batched")
    if not (lock is None or isinstance(lock, ExecutionLock)):
        expected = "expected an ExecutionLock, which knows its holder"
        raise TypeError(f"lock: {expected}, got {lock!r}")
    asked = make_asked(
        max_batch_size,
        max_latency,
        max_queue,
        cost=cost,
        padded=padded,
        max_batch_cost=max_batch_cost,
        sizes=sizes,
        pad=pad,
        pad_costs=pad_costs,
    )
    return Cooperative(handler, asked.limits, policy=policy, lock=lock, cost=cost, pad=pad)
