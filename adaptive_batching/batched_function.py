"""What `@batched` makes of a handler: something that is called with one item."""

from collections.abc import Callable, Coroutine, Hashable, Iterable
from functools import update_wrapper
from types import MethodType
from typing import Any, Generic, Never, TypeVar, cast, overload

from adaptive_batching.dispatcher import Dispatcher, call_from_thread, run_in_lanes
from adaptive_batching.dispatcher.calls import weigh
from adaptive_batching.dispatcher.stats import Stats
from adaptive_batching.units import Duration, patience_of, seconds_of

T = TypeVar("T")
R = TypeVar("R")
S = TypeVar("S")


class Batched(Generic[T, R]):
    """A handler of lists that is called with one item: `await predict(x)` gives x's own result.

    Calls that come together run together. The workers start with the first call, or with
    `async with predict:`, which also drains and stops them at the end; without it they stop when
    the event loop ends. A new event loop, after the first has ended, starts afresh.
    """

    __wrapped__: Callable[..., Any]

    def __init__(
        self,
        handler: Callable[..., Any],
        dispatcher: Dispatcher[T, R],
        cost_of: Callable[[T], float] | None = None,
    ) -> None:
        # __wrapped__ is where a worker process finds the handler; what else a class holds, say a
        # `map` of its own, must not hide ours
        update_wrapper(self, handler, updated=())
        self._name = str(getattr(self, "__qualname__", "handler"))
        self._dispatcher = dispatcher
        self._cost_of = cost_of
        self._submit = dispatcher.submit if cost_of is None else self._submit_at_cost

    def __repr__(self) -> str:
        now = self.stats()
        return f"<batched {self._name} queued={now.queued} running={now.running}/{now.workers}>"

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Copies of an object with batched methods get queues of their own; others are a name."""
        handler = self.__wrapped__
        return (type(None), ()) if isinstance(handler, MethodType) else str(handler.__qualname__)

    def __call__(
        self, item: T, /, *, key: Hashable = None, max_latency: Duration | None = None
    ) -> Coroutine[Any, Any, R]:
        """Let one item join a batch.

        Args:
            item: One element of the handler's list.
            key: Only equal keys share a batch.
            max_latency: Seconds for this call, or a text such as `"100ms"`. Of this and the
                decorator's, the smaller holds.

        Raises:
            Refused: Before any work was done: Overloaded, QueueFull, Draining, JobTooLarge.
            DeadlineExceeded: It waited past its deadline.
            CostError: The decorator's `cost` raised for this item, or returned no such number.
            ValueError: `max_latency` is not positive; by the call itself, before it is awaited.
            Exception: What the handler raised, or returned in this item's place.
        """
        call: Any = self._submit(item, self._patience(max_latency), key)
        call.__qualname__ = self._name  # as which Python shows it, if it is never awaited say
        return call  # type: ignore[no-any-return]

    def call_from_thread(
        self, item: T, /, *, key: Hashable = None, max_latency: Duration | None = None
    ) -> R:
        """Let one item of another thread join a batch, and wait there for its result.

        The event loop has to run elsewhere: enter `async with predict:` on it first.

        Raises:
            NoEventLoop: It does not run, or ended before it answered.
            ReentrantCall: This is its own thread, which would wait for itself.
            Exception: As calls do.
        """
        dispatcher = self._dispatcher
        patience = self._patience(max_latency)
        # not on the loop's time
        cost = 0.0 if self._cost_of is None else weigh(self._cost_of, item)
        return call_from_thread(
            dispatcher.loop, lambda: dispatcher.submit(item, patience, key, cost=cost)
        )

    def _patience(self, max_latency: Duration | None) -> float | None:
        """The seconds of a call that says how many it has."""
        if max_latency is None:
            return None
        return patience_of(max_latency, self._dispatcher.limits.max_latency)

    async def _submit_at_cost(
        self, item: T, max_latency: Duration | None = None, key: Hashable = None
    ) -> R:
        assert self._cost_of is not None
        cost = weigh(self._cost_of, item)
        return await self._dispatcher.submit(item, max_latency, key, cost=cost)

    async def map(self, items: Iterable[T]) -> list[R]:
        """Run many items and return their results in the order of the items.

        Enough are under way at any time to fill every worker's next batch; the rest wait in the
        iterable, so it may be long. One that is refused because of those goes in when another has
        its result. The first other error ends it and cancels what is under way.
        """
        return await run_in_lanes(self, items, self._dispatcher.saturation)

    def map_from_thread(self, items: Iterable[T]) -> list[R]:
        """Run many items of another thread, as `map` does, and wait there for their results.

        Raises:
            NoEventLoop: The event loop does not run, or ended before it answered.
            ReentrantCall: This is its own thread, which would wait for itself.
            Exception: As `map` does.
        """
        return call_from_thread(self._dispatcher.loop, lambda: self.map(items))

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

    async def aclose(self, timeout: Duration | None = None) -> None:  # noqa: ASYNC109  a drain
        """Let what waits finish, up to `timeout` seconds, then stop the workers."""
        seconds = None if timeout is None else seconds_of("timeout", timeout)
        await self._dispatcher.aclose(seconds)

    def is_bound_to(self, instance: object) -> bool:
        """Whether it is a method of this very object."""
        return getattr(self.__wrapped__, "__self__", None) is instance

    def __enter__(self) -> Never:
        """Say that workers start and end on an event loop.

        Raises:
            TypeError: Always.
        """
        raise TypeError(f"{self._name}: expected `async with`, got `with`")

    def __exit__(self, *_: object) -> None:
        """Nothing was entered."""

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
        if isinstance(instance, type):  # behind a classmethod
            self()
        try:
            owned: dict[str, Any] = vars(instance)
        except TypeError:
            msg = f"{owner.__name__} has no __dict__ to keep a batched method's queue in"
            raise TypeError(msg) from None
        kept: Batched[T, R] | None = owned.get(self._slot)
        if kept is None or not kept.is_bound_to(instance):  # a copy has its original's __dict__
            kept = owned[self._slot] = self._bind(MethodType(self._handler, instance))
        return kept

    def __call__(self, *_: object, **__: object) -> Never:
        """Say that a call needs an instance.

        Raises:
            TypeError: Always.
        """
        name = getattr(self, "__qualname__", "a batched method")
        raise TypeError(
            f"{name} is a batched method: expected a call on an instance, got one on its class;"
            " without an instance, batch a function of (items) outside the class"
        )

    def __set__(self, instance: S, value: Never) -> None:
        msg = f"{getattr(self, '__qualname__', 'a batched method')} can't be set on an instance"
        raise AttributeError(msg)
