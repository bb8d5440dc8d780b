"""Collects single items into batches: the public face of a driver, on whichever loop it is used."""

import asyncio
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from math import inf
from types import MappingProxyType
from typing import Generic, Self, TypeVar

from adaptive_batching.core import (
    Fairness,
    JobClass,
    JobOutcome,
    Limits,
    PolicyLike,
    Priority,
    Scheduler,
    Station,
    make_policy,
)
from adaptive_batching.dispatcher.calls import Call, CallInSteps, OnEnd, settle
from adaptive_batching.dispatcher.driver import Driver
from adaptive_batching.dispatcher.observers import Observer, checked
from adaptive_batching.dispatcher.stats import Stats
from adaptive_batching.errors import NoWorkers, UsageError, WrongEventLoop
from adaptive_batching.units import Duration
from adaptive_batching.workers.interface import Restartable, Scalable, Workers
from adaptive_batching.workers.placement import check_count

T = TypeVar("T")
R = TypeVar("R")


class Dispatcher(Generic[T, R]):
    """Collects single items into batches for some workers.

    It belongs to the event loop that uses it first. When that loop has ended, or after `aclose`
    and another `start`, it begins anew and has forgotten what it learned.

    Args:
        workers: Where batches run.
        limits: Batch size, latency, queue.
        policy: Name, class or object; see `core.policies`.
        idempotent: Whether running an item twice is as good as once. Then a batch that fails runs
            again in parts, so that only the item to blame for it gets the error.
        clock: Monotonic seconds.
        observers: Told about every batch; a `JobObserver` about every request as well.
        next_batch_first: Whether the next batch leaves before the members of the last one are
            answered. So it should where an answer takes time, as over HTTP: the worker would stand
            idle meanwhile. A caller that only awaits a result may ask again at once, and is waited
            for.
        classes: By batch key, items with limits and a latency model of their own; see `Share`.
        fairness: How tenants share the workers; None if tenants are not told apart.
    """

    def __init__(
        self,
        workers: Workers,
        limits: Limits,
        *,
        policy: PolicyLike = "cork",
        idempotent: bool = False,
        clock: Callable[[], float] = time.monotonic,
        observers: Sequence[Observer] = (),
        next_batch_first: bool = False,
        classes: Mapping[Hashable, JobClass] = MappingProxyType({}),
        fairness: Fairness | None = None,
    ) -> None:
        self.workers = workers
        self._limits = limits
        self._policy = policy
        self._idempotent = idempotent
        self._clock = clock
        self._observers = checked(observers)
        self._next_batch_first = next_batch_first
        self.classes = classes
        self._fairness = fairness
        self._driver: Driver[T, R] | None = None

    def __repr__(self) -> str:
        return f"<Dispatcher {self._driver or 'not started'}>"

    @property
    def saturation(self) -> int:
        """Items under way that keep every worker busy and its next batch full.

        Where it is not known how many workers will come, one more than there are is reckoned with.
        """
        health = self.workers.health
        workers = health.alive + 1 if health.wanted is None else health.wanted
        return min(self._limits.max_batch_size * (workers + 1), self._limits.max_queue)

    @property
    def limits(self) -> Limits:
        """Batch size, latency, queue."""
        return self._limits

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that it belongs to; None before its first use."""
        return None if self._driver is None else self._driver.loop

    def station(self, now: float, upstream: int = 0) -> Station:
        """What is predicted of it as one stage among others; nothing before its first use.

        Args:
            now: The present (seconds).
            upstream: Items in earlier stages, which will come before one that comes now.
        """
        return Station() if self._driver is None else self._driver.station(now, upstream)

    @property
    def concluded(self) -> float:
        """When its last batch ended (monotonic seconds); its members are answered next."""
        return -inf if self._driver is None else self._driver.concluded

    @property
    def ready(self) -> bool:
        """Whether its workers have been ready, so that it can answer."""
        return self._driver is not None and self._driver.readiness.ready

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def start(self) -> None:
        """Start the workers; returns when they are ready. The first `submit` does it otherwise.

        Raises:
            WorkerStartError: A worker could not load its handler.
        """
        if self._driver is not None and self._driver.closing:
            self._driver = None
        await self._drive(asyncio.get_running_loop()).started()

    async def submit(
        self,
        item: T,
        max_latency: Duration | None = None,
        key: Hashable = None,
        size: int = 1,
        tenant: Hashable = None,
        priority: Priority = Priority.NORMAL,
        cost: float | Exception = 0.0,
    ) -> R:
        """Let one item join a batch and return its own result.

        The first call starts the workers; its `max_latency` counts from when they are ready.

        Args:
            item: What the handler gets in its list.
            max_latency: Seconds, instead of the limit's.
            key: Only equal keys share a batch.
            size: How many items it counts as.
            tenant: The tenant that sent it. That and the priority count with a `fairness` only.
            priority: Whether it goes before others of its tenant.
            cost: What its items cost, by the limits' `Costs.of_items`, or the error that the call
                ends with because that is not known. Without `Limits.costs` it counts for nothing.

        Raises:
            Refused: Before any work was done: Overloaded, QueueFull, Draining, JobTooLarge.
            DeadlineExceeded: It waited past its deadline.
            ValueError: `max_latency` is not positive, `size` is less than 1, or `cost` is negative,
                more than 2^53 an item, or no number.
            Quarantined: Workers died over this item.
            Exception: What the handler raised, or returned in this item's place.
        """
        loop = asyncio.get_running_loop()
        driver = self._driver
        if driver is None or driver.loop is not loop:
            driver = self._drive(loop)
        if not driver.readiness.ready:
            await driver.started()
        call: Call[T, R] = driver.admit(
            settle, item, max_latency, key, size, tenant, priority, cost
        )
        future: asyncio.Future[R] = loop.create_future()
        call.future = future
        try:
            return await future
        except asyncio.CancelledError:
            driver.withdraw(call)
            raise

    def post(
        self,
        on_end: OnEnd,
        item: T,
        max_latency: Duration | None = None,
        key: Hashable = None,
        size: int = 1,
        tenant: Hashable = None,
        priority: Priority = Priority.NORMAL,
        cost: float | Exception = 0.0,
    ) -> Call[T, R]:
        """As `submit`, for callbacks.

        `on_end` is called with the call when it has its outcome, in a later turn of the loop,
        unless the call is withdrawn before.

        Raises:
            NoWorkers: The workers have not been ready yet; only `submit` waits for them.
            Exception: As `submit`, before the item has joined a batch.
        """
        driver = self._driver
        if driver is None or not driver.readiness.ready or driver.loop.is_closed():
            raise NoWorkers("the workers are not ready yet")
        return driver.admit(on_end, item, max_latency, key, size, tenant, priority, cost)

    def withdraw(self, call: Call[T, R] | CallInSteps[R]) -> None:
        """No outcome of a call is wanted any more."""
        if isinstance(call, CallInSteps):
            call.leave()
        elif self._driver is not None:
            self._driver.withdraw(call)

    def take_out(self, call: Call[T, R] | CallInSteps[R], outcome: JobOutcome) -> None:
        """Let a call that waits leave the queue; one whose batch runs ends with it, as ever.

        Args:
            call: Which one.
            outcome: What it counts as: that of another call without which it is not wanted.
        """
        if isinstance(call, CallInSteps):
            call.leave()
        elif self._driver is not None:
            self._driver.take_out(call, outcome)

    def refuse_unseen(self, max_latency: float) -> float | None:
        """Refuse a call if that is certain, whatever it brings: it need not be read any further.

        Args:
            max_latency: Seconds that are left to it.

        Returns:
            Seconds after which it would be let in, if no other came; None if it has to be
            submitted to know.
        """
        return None if self._driver is None else self._driver.refuse_unseen(max_latency)

    def fail_unseen(
        self, error: Exception, keys: Sequence[Hashable] = (None,), max_latency: float = inf
    ) -> None:
        """Count calls that ended with an error before they could be submitted.

        Args:
            error: Of their key, say, or of another call without which they are not wanted.
            keys: The batch key of each.
            max_latency: Seconds that were left to them.
        """
        if self._driver is not None:
            self._driver.fail_unseen(error, keys, max_latency)

    async def restart_workers(self) -> None:
        """Put a fresh process in the place of each worker, one after the other; no request fails.

        Each is started and warm before its predecessor leaves. Before the first call there are
        none, and nothing happens.

        Raises:
            WorkerStartError: One could not be started: the workers that are left go on.
            Draining: The dispatcher was closed meanwhile.
            UsageError: The handler does not run in worker processes.
        """
        if not isinstance(self.workers, Restartable):
            name = type(self.workers).__name__
            raise UsageError(f"expected worker processes to restart, got {name}")
        if self._driver is not None and not self._driver.loop.is_closed():
            await self._begun(self._driver)
            await self.workers.restart()

    async def scale_workers(self, count: int) -> None:
        """Have so many workers from now on; no request fails.

        Returns when the new ones are ready, or those that leave have ended their batches.

        Raises:
            WorkerStartError: A new one could not be started: there are as many as before.
            Draining: The dispatcher was closed meanwhile.
            UsageError: The handler's workers are not such that there can be more or fewer.
            ValueError: There can't be so many.
        """
        if not isinstance(self.workers, Scalable):
            name = type(self.workers).__name__
            raise UsageError(f"expected worker processes or actors to scale, got {name}")
        check_count(count)
        if self._driver is not None and not self._driver.loop.is_closed():
            await self._begun(self._driver)
        await self.workers.scale(count)

    def retune(self, policy: PolicyLike, limits: Limits) -> None:
        """Decide by another policy and other limits from now on; what waits, waits on.

        Raises:
            ValueError: There is no such policy, or jobs that wait have no costs, or others.
        """
        made = make_policy(policy)
        if self._driver is not None:
            self._driver.retune(made, limits)
        self._policy, self._limits = policy, limits

    def retune_class(self, key: Hashable, limits: Limits) -> None:
        """Decide by other limits about one of its classes; what waits, waits on.

        Raises:
            ValueError: Jobs that wait have no costs, or others.
        """
        if self._driver is not None:
            self._driver.retune_class(key, limits)
        self.classes = {**self.classes, key: self.classes[key].limited(limits)}

    def flush(self) -> None:
        """From now on let what waits leave as soon as a worker is free."""
        if self._driver is not None:
            self._driver.flush()

    async def aclose(self, timeout: float | None = None) -> None:  # noqa: ASYNC109  a drain, not a wait
        """Let what waits finish, then stop the workers.

        Args:
            timeout: Seconds after which what is left is given up: waiting requests are refused as
                `Draining`, running ones fail with `WorkerLost`.
        """
        if self._driver is not None and not self._driver.loop.is_closed():
            await self._driver.drain(timeout)

    def stats(self) -> Stats:
        """What happened so far and what waits."""
        return Stats.nothing() if self._driver is None else self._driver.stats()

    def stats_of(self, key: Hashable) -> Stats:
        """Return the stats of one class of jobs; running batches and workers are those of all."""
        return Stats.nothing() if self._driver is None else self._driver.stats_of(key)

    @staticmethod
    async def _begun(driver: Driver[T, R]) -> None:
        """Wait for the workers' first start; that all have died since is none of our business."""
        if not driver.readiness.ready:
            await driver.started()

    def _drive(self, loop: asyncio.AbstractEventLoop) -> Driver[T, R]:
        """The driver of this loop; a new one if there was none or its loop has ended."""
        driver = self._driver
        if driver is None or driver.loop.is_closed():
            policy = make_policy(self._policy)
            scheduler = Scheduler(
                policy,
                self._limits,
                workers=0,
                idempotent=self._idempotent,
                classes={key: each.unlearned() for key, each in self.classes.items()},
                fairness=self._fairness,
            )
            driver = Driver(
                loop,
                scheduler,
                self.workers,
                self._clock,
                self._observers,
                next_batch_first=self._next_batch_first,
                tells_tenants_apart=self._fairness is not None,
            )
            self._driver = driver
        elif driver.loop is not loop:
            msg = "this batched function runs its batches on another event loop, which still runs"
            advice = "`await asyncio.to_thread(function.call_from_thread, item)`"
            raise WrongEventLoop(f"{msg}: from this one use {advice}")
        return driver
