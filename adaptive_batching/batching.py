"""`@batched`: a handler of lists becomes a function of one item."""

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, Protocol, TypeVar, overload

from adaptive_batching.allowed_sizes import Pad
from adaptive_batching.asked_limits import make_asked
from adaptive_batching.batched_function import Batched, BatchedMethod
from adaptive_batching.configured_handler import check_takes_a_list, configured, takes_lengths
from adaptive_batching.core import PolicyLike, make_policy
from adaptive_batching.dispatcher import Dispatcher, Observer
from adaptive_batching.keywords import names_keywords
from adaptive_batching.units import Duration, check_flags
from adaptive_batching.workers.factory import make_workers
from adaptive_batching.workers.handler.handler import ConfiguredHandler
from adaptive_batching.workers.handler.warm_up import make_warm_up
from adaptive_batching.workers.place import check_reaches_workers, place
from adaptive_batching.workers.placement import Placement

if TYPE_CHECKING:
    import numpy as np

    _Array = np.ndarray[Any, Any]
    _Arrays = _Array | Mapping[str, object]

T = TypeVar("T")
R = TypeVar("R")
S = TypeVar("S")
R_co = TypeVar("R_co", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)
A = TypeVar("A", bound="_Arrays")
A_contra = TypeVar("A_contra", contravariant=True)
X = TypeVar("X", bound="_Tensor")


class Handler(Protocol[T, R_co]):
    """An instance of a class-based handler: built once per worker, then called with lists."""

    def __call__(self, items: list[T], /) -> Sequence[R_co] | Coroutine[Any, Any, Sequence[R_co]]:
        """Return one result for each item, in order; an exception may stand in an item's place."""


class Preprocessing(Protocol[T_contra, R_co]):
    """A handler that takes each item by itself before the batch: what fails there fails alone."""

    def preprocess(self, item: T_contra, /) -> Any:
        """Return what stands for the item in the batch."""

    def __call__(self, items: list[Any], /) -> Sequence[R_co] | Coroutine[Any, Any, Sequence[R_co]]:
        """As `Handler`'s."""


class Postprocessing(Protocol[T, R_co]):
    """A handler that takes each result by itself after the batch: what fails there fails alone."""

    def __call__(self, items: list[T], /) -> Sequence[Any] | Coroutine[Any, Any, Sequence[Any]]:
        """As `Handler`'s."""

    def postprocess(self, result: Any, /) -> R_co:
        """Return what the caller gets."""


class Processing(Protocol[T_contra, R_co]):
    """A handler that does both."""

    def preprocess(self, item: T_contra, /) -> Any:
        """Return what stands for the item in the batch."""

    def __call__(self, items: list[Any], /) -> Sequence[Any] | Coroutine[Any, Any, Sequence[Any]]:
        """As `Handler`'s."""

    def postprocess(self, result: Any, /) -> R_co:
        """Return what the caller gets."""


class Stacking(Protocol[A_contra]):
    """A handler that takes one array, or several by name, each with a row for every item."""

    def __call__(self, x: A_contra, /, *lengths: Any, **named: Any) -> Any:
        """Return an array with a row for every item, several by name, or a list of results."""


class PreprocessedStacking(Stacking[A_contra], Protocol[T_contra, A_contra]):
    """Return the handler with a step that makes the array of each item."""

    def preprocess(self, item: T_contra, /) -> Any:
        """Return the array that is stacked."""


class _Tensor(Protocol):
    """A tensor of PyTorch: the handler takes it, callers have arrays of NumPy."""

    def numpy(self, *, force: bool = False) -> Any: ...


# What a row of an array is, its type does not say: hence Any for the results of arrays.
class _Decorator(Protocol):
    @overload
    def __call__(self, handler: type[Processing[T, Awaitable[R]]], /) -> Batched[T, R]: ...
    @overload
    def __call__(self, handler: type[Processing[T, R]], /) -> Batched[T, R]: ...
    @overload
    def __call__(self, handler: type[Preprocessing[T, R]], /) -> Batched[T, R]: ...
    @overload
    def __call__(self, handler: type[Postprocessing[T, Awaitable[R]]], /) -> Batched[T, R]: ...
    @overload
    def __call__(self, handler: type[Postprocessing[T, R]], /) -> Batched[T, R]: ...
    @overload
    def __call__(self, handler: type[Handler[T, R]], /) -> Batched[T, R]: ...
    @overload
    def __call__(
        self, handler: Callable[[list[T]], Awaitable[Sequence[R]]], /
    ) -> Batched[T, R]: ...
    @overload
    def __call__(self, handler: Callable[[list[T]], Sequence[R]], /) -> Batched[T, R]: ...
    @overload
    def __call__(
        self, handler: Callable[[S, list[T]], Awaitable[Sequence[R]]], /
    ) -> BatchedMethod[S, T, R]: ...
    @overload
    def __call__(
        self, handler: Callable[[S, list[T]], Sequence[R]], /
    ) -> BatchedMethod[S, T, R]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]  # a class with preprocess comes here first
        self, handler: type[PreprocessedStacking[T, A]], /
    ) -> Batched[T, Any]: ...
    @overload
    def __call__(self, handler: type[Stacking[A]], /) -> Batched[A, Any]: ...
    @overload
    def __call__(self, handler: type[Stacking[X]], /) -> "Batched[_Array, Any]": ...
    @overload
    def __call__(self, handler: Callable[Concatenate[A, ...], Any], /) -> Batched[A, Any]: ...
    @overload
    def __call__(
        self, handler: Callable[Concatenate[X, ...], Any], /
    ) -> "Batched[_Array, Any]": ...
    @overload
    def __call__(
        self, handler: Callable[Concatenate[S, A, ...], Any], /
    ) -> BatchedMethod[S, A, Any]: ...


@overload
def batched(handler: Callable[[list[T]], Awaitable[Sequence[R]]], /) -> Batched[T, R]: ...
@overload
def batched(handler: Callable[[list[T]], Sequence[R]], /) -> Batched[T, R]: ...
@overload
def batched(handler: Callable[Concatenate[A, ...], Any], /) -> Batched[A, Any]: ...
@overload
def batched(
    *,
    max_batch_size: int | None = None,
    max_latency: Duration | None = None,
    workers: int | str | Placement = 1,
    cpus: Sequence[int | Sequence[int]] | None = None,
    policy: PolicyLike = "cork",
    max_queue: int = 65_536,
    idempotent: bool = False,
    observers: Sequence[Observer] = (),
    examples: Sequence[Any] = (),
    init_args: Mapping[str, Any] | None = None,
    cost: Callable[[Any], float] | None = None,
    padded: bool = False,
    max_batch_cost: float | None = None,
    sizes: Sequence[int] | None = None,
    pad: Pad | None = None,
    pad_costs: Sequence[float] | None = None,
) -> _Decorator: ...
@names_keywords
def batched(
    handler: Any = None,
    /,
    *,
    max_batch_size: int | None = None,
    max_latency: Duration | None = None,
    workers: int | str | Placement = 1,
    cpus: Sequence[int | Sequence[int]] | None = None,
    policy: PolicyLike = "cork",
    max_queue: int = 65_536,
    idempotent: bool = False,
    observers: Sequence[Observer] = (),
    examples: Sequence[Any] = (),
    init_args: Mapping[str, Any] | None = None,
    cost: Callable[[Any], float] | None = None,
    padded: bool = False,
    max_batch_cost: float | None = None,
    sizes: Sequence[int] | None = None,
    pad: Pad | None = None,
    pad_costs: Sequence[float] | None = None,
) -> Any:
    """Turn a handler of lists into a function of one item that batches by itself.

    The handler takes a list and returns as many results in the same order; or, if its annotations
    say so, one array with a row for every item. It is an `async def`
    function (batches run as tasks on the loop), a `def` function (in threads), a method (each
    instance batches for itself) or a class (built once per worker, in pinned processes).

    `@batched` alone, without parentheses, leaves every argument at its default.

    Args:
        handler: What is decorated; given by Python where there are no parentheses.
        max_batch_size: Items in a batch at the most: 64, or the largest of `sizes`.
        max_latency: Seconds from call to result, or a text such as `"100ms"`. What can't be
            answered in time is refused with `Overloaded`; None promises nothing and refuses
            nothing for lateness.
        workers: How many batches may run at a time, or where: `Threads(2)`, `Processes(2)`, or
            `"unix:/run/model.sock"` for workers that connect there.
        cpus: The core, or the list of cores, of each worker process.
        policy: When a batch leaves: `cork`, `greedy`, `window:2ms`, `aimd`, or your own.
        max_queue: Items that may wait; beyond it calls are refused with `QueueFull`. The default
            only stops a runaway producer: about 32 MiB of waiting calls.
        idempotent: Whether running an item twice is as good as once. Then a batch that raises, or
            loses its worker, runs again in parts: only the item to blame for it gets the error.
        observers: Told about every batch, and about every call if they listen: a `Recorder`.
        examples: Items with which each worker warms up before it is ready, in batches of `sizes`,
            else of 1, 2, 4 … and `max_batch_size`. The first call is then decided by what they
            took. With `cost`, give a short and a long one, or one of each of `pad_costs`: each size
            runs with all of these.
        init_args: Keyword arguments with which each worker builds a class: `{"path": "model.pt"}`.
        cost: What one item costs, where items don't cost the same: a function of the item that
            returns a number of 0 or more, in any unit (tokens, pixels): of Python or NumPy, or in
            an array or tensor without dimensions. It is called once for each item, where the call
            is made. Batches are then chosen by it, and durations learned.
        padded: Whether each item of a batch takes as long as the costliest one, as padding does: a
            batch costs its size times its largest cost. Otherwise it costs the sum.
        max_batch_cost: No batch costs more than that, for memory; an item that costs more alone is
            refused with `JobTooLarge`. None for no limit.
        sizes: Items of the batches that the handler takes, where its model was compiled for a few:
            `[1, 2, 4, 8]`. Any other batch is filled up to the next of them, after `preprocess`,
            and the results of what fills it up are cut off.
        pad: What fills a batch up: a function that takes its last item and returns such an item,
            as `np.zeros_like` does. None repeats that item. Where costs add up, the handler gets
            the cheapest item of the cheapest call last.
        pad_costs: Costs to which the handler pads its items, with `cost`: `[128, 256, 512]`. An
            item costs the next of them, or its own cost above the last. With `padded` a batch costs
            its size times the largest of these, otherwise their sum. `Padded` arrays are padded to
            them for the handler; then they are lengths.

    Raises:
        TypeError: The handler is nothing of the above, or `cost` or `pad` is no plain function.
        ValueError: A limit is out of its range, `padded`, `max_batch_cost` or `pad_costs` is given
            without `cost`, `pad` without `sizes`, or `max_batch_size` is not one of
            `sizes`, or `pad` or `init_args` is given for workers that connect by themselves; the
            message says what was expected.
    """
    if not (handler is None or callable(handler)):
        msg = f"batched: expected a handler, or keywords such as max_batch_size=64, got {handler!r}"
        raise TypeError(msg)
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
    check_flags(idempotent=idempotent)
    limits = asked.limits
    warm_up = make_warm_up(examples, limits, asked.cost_of)
    make_policy(policy)  # what is wrong with it is told here, where it was written

    def decorate(handler: Any) -> Any:
        placement = place(handler, workers, cpus)
        check_reaches_workers(placement, init_args, pad)
        runs = configured(handler, init_args, padding=asked.padding, costs=limits.costs)

        def bind(bound: Callable[..., Any]) -> Batched[Any, Any]:
            run = runs._replace(handler=bound) if isinstance(runs, ConfiguredHandler) else bound
            dispatcher: Dispatcher[Any, Any] = Dispatcher(
                make_workers(run, placement, warm_up=warm_up),
                limits,
                policy=policy,
                idempotent=idempotent,
                observers=observers,
            )
            return Batched(bound, dispatcher, asked.cost_of)

        if _needs_self(handler, 1 + takes_lengths(runs)):
            return BatchedMethod(handler, bind)
        check_takes_a_list(runs)
        return bind(handler)

    return decorate if handler is None else decorate(handler)


def _needs_self(handler: Any, arguments: int) -> bool:
    """Whether a handler is a function in a class that takes `self` before so many arguments."""
    owner = getattr(handler, "__qualname__", "").rpartition(".")[0]
    if isinstance(handler, type) or not owner or owner.endswith("<locals>"):
        return False
    try:
        parameters = inspect.signature(handler).parameters.values()
    except (TypeError, ValueError):  # written in C: takes what it is given
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = sum(each.kind in kinds and each.default is each.empty for each in parameters)
    return needed == arguments + 1
