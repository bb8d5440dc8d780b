"""`@batched`: a handler of lists becomes a function of one item."""

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable, Sequence
from functools import update_wrapper
from math import inf
from types import MethodType
from typing import Any, Generic, Never, Protocol, TypeVar, cast, overload

from adaptive_batching.core import Limits, PolicyLike, make_policy
from adaptive_batching.dispatcher import Dispatcher, Observer, call_from_thread, run_in_lanes
from adaptive_batching.dispatcher.ledger import Stats
from adaptive_batching.workers.making import make_workers
from adaptive_batching.workers.placement import Placement, place
from adaptive_batching.workers.warmup import make_warm_up

T = TypeVar("T")
R = TypeVar("R")
S = TypeVar("S")
R_co = TypeVar("R_co", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)


class Batched(Generic[T, R]):
    """A handler of lists that is called with one item: `await predict(x)` gives x's own result.

    Calls that come together run together. The workers start with the first call, or with
    `async with predict:`, which also drains and stops them at the end; without it they stop when
    the event loop ends. A new event loop, after the first has ended, starts afresh.
    """

    __wrapped__: Callable[..., Any]

    def __init__(self, handler: Callable[..., Any], dispatcher: Dispatcher[T, R]) -> None:
        # __wrapped__ is where a worker process finds the handler; what else a class holds, say a
        # `map` of its own, must not hide ours
        update_wrapper(self, handler, updated=())
        self._dispatcher = dispatcher

    def __repr__(self) -> str:
        return f"<batched {getattr(self, '__qualname__', 'handler')} {self._dispatcher!r}>"

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Copies of an object with batched methods get queues of their own; others are a name."""
        handler = self.__wrapped__
        return (type(None), ()) if isinstance(handler, MethodType) else str(handler.__qualname__)

    def __call__(
        self, item: T, /, *, key: Hashable = None, max_latency: float | None = None
    ) -> Coroutine[Any, Any, R]:
        """Let one item join a batch.

        Args:
            item: One element of the handler's list.
            key: Only equal keys share a batch.
            max_latency: Seconds for this call, instead of the decorator's.

        Raises:
            Refused: Before any work was done: Overloaded, QueueFull, Draining.
            DeadlineExceeded: It waited past its deadline.
            Exception: What the handler raised, or returned in this item's place.
        """
        return self._dispatcher.submit(item, key, max_latency)

    def call_from_thread(
        self, item: T, /, *, key: Hashable = None, max_latency: float | None = None
    ) -> R:
        """Let one item of another thread join a batch, and wait there for its result.

        The event loop has to run elsewhere: enter `async with predict:` on it first.

        Raises:
            NoEventLoop: It does not run, or ended before it answered.
            ReentrantCall: This is its own thread, which would wait for itself.
            Exception: As calls do.
        """
        dispatcher = self._dispatcher
        return call_from_thread(dispatcher.loop, lambda: dispatcher.submit(item, key, max_latency))

    async def map(self, items: Iterable[T]) -> list[R]:
        """Run many items and return their results in the order of the items.

        Enough are under way at any time to fill every worker's next batch; the rest wait in the
        iterable, so it may be long. The first error ends it and cancels what is under way.
        """
        return await run_in_lanes(self, items, self._dispatcher.saturation)

    def stats(self) -> Stats:
        """What happened so far and what waits."""
        return self._dispatcher.stats()

    async def start(self) -> None:
        """Start the workers and wait until they are ready.

        Raises:
            WorkerStartError: A worker could not load its handler.
            HandlerNotFound: A worker process can't import it.
        """
        await self._dispatcher.start()

    async def restart_workers(self) -> None:
        """Put a fresh process in the place of each worker, one after the other; no call fails.

        For code or weights that are new, or memory that has leaked. Each is started and warm before
        its predecessor leaves.

        Raises:
            WorkerStartError: One could not be started: the workers that are left go on.
            UsageError: The handler does not run in worker processes.
        """
        await self._dispatcher.restart_workers()

    async def scale_workers(self, count: int) -> None:
        """Have so many worker processes, or actors, from now on; no call fails.

        Raises:
            WorkerStartError: A new one could not be started: there are as many as before.
            UsageError: The handler runs on the loop or in threads.
            ValueError: There can't be so many, because cores were named for fewer.
        """
        await self._dispatcher.scale_workers(count)

    async def aclose(self, timeout: float | None = None) -> None:  # noqa: ASYNC109  as Dispatcher's
        """Let what waits finish, up to `timeout` seconds, then stop the workers."""
        await self._dispatcher.aclose(timeout)

    def is_bound_to(self, instance: object) -> bool:
        """Whether it is a method of this very object."""
        return getattr(self.__wrapped__, "__self__", None) is instance

    async def __aenter__(self) -> "Batched[T, R]":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class BatchedMethod(Generic[S, T, R]):
    """A batched method: each instance batches for itself."""

    def __init__(
        self, handler: Callable[..., Any], bind: Callable[[Callable[..., Any]], Batched[T, R]]
    ) -> None:
        update_wrapper(cast("Any", self), handler)
        self._handler = handler
        self._bind = bind
        self._slot = f"_batched_{getattr(handler, '__name__', 'method')}"

    @overload
    def __get__(self, instance: None, owner: type[S]) -> "BatchedMethod[S, T, R]": ...
    @overload
    def __get__(self, instance: S, owner: type[S]) -> Batched[T, R]: ...
    def __get__(
        self, instance: S | None, owner: type[S]
    ) -> "BatchedMethod[S, T, R] | Batched[T, R]":
        if instance is None:
            return self
        try:
            owned: dict[str, Any] = vars(instance)
        except TypeError:
            msg = f"{owner.__name__} has no __dict__ to keep a batched method's queue in"
            raise TypeError(msg) from None
        kept: Batched[T, R] | None = owned.get(self._slot)
        if kept is None or not kept.is_bound_to(instance):  # a copy has its original's __dict__
            kept = owned[self._slot] = self._bind(MethodType(self._handler, instance))
        return kept

    def __set__(self, instance: S, value: Never) -> None:
        msg = f"{getattr(self, '__qualname__', 'a batched method')} can't be set on an instance"
        raise AttributeError(msg)


class Handler(Protocol[T, R_co]):
    """An instance of a class-based handler: built once per worker, then called with lists."""

    def __call__(self, items: list[T], /) -> Sequence[R_co] | Coroutine[Any, Any, Sequence[R_co]]:
        """Return one result for each item, in order; an exception may stand in an item's place."""
        ...


class Preprocessing(Protocol[T_contra, R_co]):
    """A handler that takes each item by itself before the batch: who fails there fails alone."""

    def preprocess(self, item: T_contra, /) -> Any:
        """Return what stands for the item in the batch."""
        ...

    def __call__(self, items: list[Any], /) -> Sequence[R_co] | Coroutine[Any, Any, Sequence[R_co]]:
        """As `Handler`'s."""
        ...


class Postprocessing(Protocol[T, R_co]):
    """A handler that takes each result by itself after the batch: who fails there fails alone."""

    def __call__(self, items: list[T], /) -> Sequence[Any] | Coroutine[Any, Any, Sequence[Any]]:
        """As `Handler`'s."""
        ...

    def postprocess(self, result: Any, /) -> R_co:
        """Return what the caller gets."""
        ...


class Processing(Protocol[T_contra, R_co]):
    """A handler that does both."""

    def preprocess(self, item: T_contra, /) -> Any:
        """Return what stands for the item in the batch."""
        ...

    def __call__(self, items: list[Any], /) -> Sequence[Any] | Coroutine[Any, Any, Sequence[Any]]:
        """As `Handler`'s."""
        ...

    def postprocess(self, result: Any, /) -> R_co:
        """Return what the caller gets."""
        ...


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


def batched(
    *,
    max_batch_size: int = 64,
    max_latency: float | None = None,
    workers: int | str | Placement = 1,
    cpus: Sequence[int | Sequence[int]] | None = None,
    policy: PolicyLike = "cork",
    max_queue: int = 65_536,
    idempotent: bool = False,
    observers: Sequence[Observer] = (),
    examples: Sequence[Any] = (),
) -> _Decorator:
    """Turn a handler of lists into a function of one item that batches by itself.

    The handler takes a list and returns as many results in the same order. It is an `async def`
    function (batches run as tasks on the loop), a `def` function (in threads), a method (each
    instance batches for itself) or a class (built once per worker, in pinned processes).

    Args:
        max_batch_size: Items in a batch at the most.
        max_latency: Seconds from call to result. What can't be answered in time is refused with
            `Overloaded`; None promises nothing and refuses nothing for lateness.
        workers: How many batches may run at a time, or where: `Threads(2)`, `Processes(2)`, or
            `"unix:/run/model.sock"` for workers that connect there.
        cpus: The core, or the list of cores, of each worker process.
        policy: When a batch leaves: `cork`, `greedy`, `window:2ms`, `aimd`, or your own.
        max_queue: Items that may wait; beyond it calls are refused with `QueueFull`. The default
            only stops a runaway producer: about 32 MiB of waiting calls.
        idempotent: Whether running an item twice is as good as once. Then a batch that raises, or
            loses its worker, runs again in parts: only who is to blame for it gets the error.
        observers: Told about every batch, and about every call if they listen: a `Recorder`.
        examples: Items with which each worker warms up before it is ready, in batches of 1, 2, 4 …
            and `max_batch_size`. The first call is then decided by what they took.

    Raises:
        TypeError: The handler is nothing of the above.
        ValueError: A limit is out of its range; the message says what was expected.
    """
    limits = Limits(max_batch_size, inf if max_latency is None else max_latency, max_queue)
    warm_up = make_warm_up(examples, max_batch_size)
    make_policy(policy)  # what is wrong with it is told here, where it was written

    def decorate(handler: Any) -> Any:
        placement = place(handler, workers, cpus)

        def bind(bound: Callable[..., Any]) -> Batched[Any, Any]:
            workers = make_workers(bound, placement, warm_up=warm_up)
            dispatcher: Dispatcher[Any, Any] = Dispatcher(
                workers,
                limits,
                policy=policy,
                idempotent=idempotent,
                observers=observers,
            )
            return Batched(bound, dispatcher)

        return BatchedMethod(handler, bind) if _is_method(handler) else bind(handler)

    return decorate


def _is_method(handler: Any) -> bool:
    """Whether a function takes (self, items) rather than (items)."""
    if isinstance(handler, type):
        return False
    try:
        parameters = inspect.signature(handler).parameters.values()
    except (TypeError, ValueError):  # written in C: takes what it is given
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    taken = [p for p in parameters if p.kind in kinds]
    needed = sum(p.default is p.empty for p in taken)
    if needed == 2:
        return True
    takes_any = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    if needed == 1 or (needed == 0 and (taken or takes_any)):
        return False
    msg = f"batched: expected a handler of (items) or (self, items), got {handler!r}"
    raise TypeError(msg)
