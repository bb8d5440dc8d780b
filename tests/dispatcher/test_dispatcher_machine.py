"""Random histories of the real dispatcher in virtual time, checked against the invariants (P).

The handler is a puppet: its batches end when and how the machine says so.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, inf, log2
from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from adaptive_batching.core import Limits
from adaptive_batching.dispatcher import Dispatcher
from adaptive_batching.errors import (
    BatchFunctionError,
    DeadlineExceeded,
    Draining,
    JobTooLarge,
    Overloaded,
    Quarantined,
    QueueFull,
    WorkerLost,
)
from adaptive_batching.workers.interface import Health
from tests.virtual_time import VirtualTimeLoop

TURNS = 8  # of the loop, until everything that can happen now has happened
FILLING = {"greedy", "window:20ms"}  # policies that take all that a batch may hold


class Poison(Exception):
    """What the handler raises, or returns in an item's place."""


@dataclass(eq=False)
class Request:
    """One call, and all that is known of it."""

    number: int
    size: int
    key: str
    arrived: float
    deadline: float
    task: asyncio.Task[Any] | None = None
    gone: bool = False
    """Its caller had gone when the last rule ended."""
    dispatched: int = 0
    passed: bool = False
    """One that it goes before has left before it, in a batch into which it did not fit."""
    held: bool = False
    """A worker has it."""
    expired: bool = False
    """Its deadline came first, in the queue or in its batch."""
    refused_at: float = -inf
    """When it was turned away."""
    poisoned: bool = False
    answers: int = 0

    def goes_before(self, other: "Request") -> bool:
        """Whether it came earlier than another one and expires no later."""
        return self.number < other.number and self.deadline <= other.deadline

    @property
    def waits(self) -> bool:
        """Whether its caller still waits for a batch, be it another one."""
        return not self.held and not self.ended

    @property
    def ended(self) -> bool:
        assert self.task is not None
        return self.task.done()


@dataclass(eq=False)
class Running:
    """A batch in the hands of the puppet."""

    members: list[Request]
    worker: int
    end: asyncio.Future[Any]


class Puppets:
    """Workers of the tests: any of them, alive as long as the test says so."""

    def __init__(self, alive: frozenset[int], taken: Callable[[Running], None]) -> None:
        self.alive = alive
        self.running: list[Running] = []
        self.started = False
        self._taken = taken
        self._changed: Callable[[], None] = lambda: None

    @property
    def health(self) -> Health:
        return Health(self.alive if self.started else frozenset(), 4)

    async def start(self, on_change: Callable[[], None]) -> None:
        self.started = True
        self._changed = on_change

    async def run(self, items: list[Request], worker: int, /) -> Any:
        running = Running(items, worker, asyncio.get_running_loop().create_future())
        self._taken(running)
        self.running.append(running)
        try:
            return await running.end
        finally:
            self.running.remove(running)
            for member in items:
                member.held = False

    async def aclose(self) -> None:
        self.started = False

    def change(self, alive: frozenset[int]) -> None:
        """Some die, others are back; who dies takes its batch along."""
        self.alive = alive
        for running in self.running:
            if running.worker not in alive and not running.end.done():
                for member in running.members:
                    member.poisoned = True
                running.end.set_exception(WorkerLost("it died"))
        self._changed()


class Dispatching(RuleBasedStateMachine):
    """Callers come and go, batches end well and badly, time passes."""

    @initialize(
        policy=st.sampled_from(["cork", "cork", "greedy", "window:20ms", "aimd"]),
        max_batch_size=st.integers(1, 5),
        max_latency=st.sampled_from([inf, 0.1, 1.0]),
        max_queue=st.sampled_from([6, 65_536]),
        workers=st.integers(1, 3),
        idempotent=st.booleans(),
    )
    def begin(
        self,
        policy: str,
        max_batch_size: int,
        max_latency: float,
        max_queue: int,
        workers: int,
        *,
        idempotent: bool,
    ) -> None:
        self.loop = VirtualTimeLoop()
        self.complaints: list[dict[str, Any]] = []
        self.loop.set_exception_handler(lambda _, context: self.complaints.append(context))
        self.limits = Limits(max_batch_size, max_latency, max_queue)
        self.policy = policy
        self.most_runs = 2 + ceil(log2(max_batch_size)) if idempotent else 1
        self.requests: list[Request] = []
        self.violations: list[str] = []
        self.passed_over: list[tuple[Request, float]] = []
        self.idle_and_queued_since = inf
        self.longest_prediction = 0.0
        self.closing = False
        self.puppets = Puppets(frozenset(range(workers)), self.taken)
        self.dispatcher: Dispatcher[Request, Any] = Dispatcher(
            self.puppets,
            self.limits,
            policy=policy,
            idempotent=idempotent,
            clock=self.loop.time,
        )
        self.loop.run_until_complete(self.dispatcher.start())

    # ------------------------------------------------------------------------------------- rules

    @rule(
        count=st.integers(1, 6),
        size=st.integers(1, 6),
        key=st.sampled_from("aab"),
        patience=st.sampled_from([None, None, None, 1e-9, 0.05, 0.5]),
    )
    def submit(self, count: int, size: int, key: str, patience: float | None) -> None:
        deadline = self.now + (self.limits.max_latency if patience is None else patience)
        for _ in range(count):
            request = Request(len(self.requests), size, key, self.now, deadline)
            self.requests.append(request)
            request.task = self.loop.create_task(self.call(request, patience))
            size = 1
        self.settle()

    @precondition(lambda self: any(not request.ended for request in self.requests))
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        pending = [request for request in self.requests if not request.ended]
        data.draw(st.sampled_from(pending)).task.cancel()
        self.settle()

    @rule(seconds=st.sampled_from([1e-4, 1e-3, 0.02, 0.05, 0.3, 5.0]))
    def advance(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until:  # stop at every timer, so that the invariants see what it did
            timers = [timer.when() for timer in self.loop._scheduled if not timer.cancelled()]
            step = min([until, *timers])
            self.loop.now = max(self.loop.now, step)
            self.settle()
            self.hold_is_bounded()

    @precondition(lambda self: self.puppets.running)
    @rule(data=st.data(), poison=st.sets(st.integers(0, 4)))
    def finish(self, data: st.DataObject, poison: set[int]) -> None:
        batch = data.draw(st.sampled_from(self.puppets.running))
        batch.end.set_result(self.results(batch, poison))
        self.settle()

    @precondition(lambda self: self.puppets.running)
    @rule(data=st.data(), turns=st.integers(0, 3), last=st.booleans())
    def finish_while_members_leave(self, data: st.DataObject, turns: int, *, last: bool) -> None:
        """F9: a caller leaves in the tick of its result, or a turn before or after."""
        batch = data.draw(st.sampled_from(self.puppets.running))
        leaver = data.draw(st.sampled_from(batch.members))
        if last:
            batch.end.set_result(self.results(batch, set()))
        self.settle(turns)
        leaver.task.cancel()
        if not last:
            batch.end.set_result(self.results(batch, set()))
        self.settle()

    @precondition(lambda self: self.puppets.running)
    @rule(
        data=st.data(),
        error=st.sampled_from(
            [Poison(), StopIteration(), StopAsyncIteration(), GeneratorExit(), TimeoutError()]
        ),
    )
    def fail(self, data: st.DataObject, error: BaseException) -> None:
        batch = data.draw(st.sampled_from(self.puppets.running))
        for member in batch.members:
            member.poisoned = True
        if isinstance(error, StopIteration):
            batch.end.cancel()  # a future holds no StopIteration: a cancelled handler instead
        else:
            batch.end.set_exception(error)
        self.settle()

    @precondition(lambda self: self.puppets.running)
    @rule(data=st.data(), answer=st.sampled_from([None, "abc", {}, [], [1] * 9, 7]))
    def answer_nonsense(self, data: st.DataObject, answer: object) -> None:
        batch = data.draw(st.sampled_from(self.puppets.running))
        for member in batch.members:
            member.poisoned = True
        batch.end.set_result(answer)
        self.settle()

    @rule(alive=st.frozensets(st.integers(0, 3)))
    def workers_change(self, alive: frozenset[int]) -> None:
        self.puppets.change(alive)
        self.settle()

    @precondition(lambda self: not self.closing)
    @rule()
    def drain(self) -> None:
        """What waits still gets its turn."""
        self.closing = True
        self.closer = self.loop.create_task(self.dispatcher.aclose())
        self.settle()

    # -------------------------------------------------------------------------------- invariants

    @invariant()
    def nothing_was_violated(self) -> None:
        """P2 to P6 are checked where batches start and callers get their answers."""
        assert not self.violations
        # The caller of a job that is shed as a batch leaves hears of it after the batch has begun.
        passed = [each.number for each, at in self.passed_over if each.refused_at != at]
        assert not passed, "P3"
        assert not self.complaints

    @invariant()
    def counters_conserve(self) -> None:
        """P1, P14: who was submitted has ended, waits or runs; no one is counted twice."""
        if not hasattr(self, "dispatcher"):
            return
        stats = self.dispatcher.stats()
        held = [member for batch in self.puppets.running for member in batch.members]
        running = [member for member in held if not member.expired]
        waiting = [request for request in self.requests if request.waits]
        assert sum(stats.requests.values()) == len(self.requests) - len(running) - len(waiting)
        assert stats.queued == sum(request.size for request in waiting)
        assert stats.running == len(self.puppets.running)
        for request in self.requests:
            assert request.dispatched <= self.most_runs
            assert request.ended or request.waits or request in running
            assert request.ended or request.deadline > self.now

    @invariant()
    def hold_is_bounded(self) -> None:
        """P7: no one waits beside an idle worker for longer than a full batch takes, and never so
        long that a deadline can't be met any more.
        """
        if not hasattr(self, "dispatcher"):
            return
        scheduler = self.dispatcher._driver._scheduler
        if not (scheduler._queues.items and scheduler.permits.idle):
            self.idle_and_queued_since = inf
            return
        assert self.policy not in {"greedy", "aimd"}
        assert not self.closing
        timer = self.dispatcher._driver._timer
        assert timer is not None
        assert not timer.cancelled()
        queued = [each for each in self.requests if each.waits and not each.dispatched]
        earliest = min(request.deadline for request in queued)
        assert self.now < timer.when() <= earliest
        if scheduler.permits.uneven:
            self.idle_and_queued_since = inf  # who waits may wait for a faster worker
        elif self.policy == "cork":
            full = scheduler.latency.predict(self.limits.max_batch_size)
            full *= 1.0 + scheduler.latency.margin  # a busy worker is waited for a little longer
            self.longest_prediction = max(self.longest_prediction, full)
            self.idle_and_queued_since = min(self.idle_and_queued_since, self.now)
            assert self.now - self.idle_and_queued_since <= self.longest_prediction + 1e-3
        else:
            assert timer.when() <= min(request.arrived for request in queued) + 0.02

    def teardown(self) -> None:
        """P9: after closing nothing is left, and everyone has an answer."""
        if not hasattr(self, "dispatcher"):
            return
        self.puppets.change(frozenset({0, 1}))
        if not self.closing:
            self.drain()
        for _ in range(2 * len(self.requests) + 1):
            for batch in self.puppets.running:
                if not batch.end.done():  # its worker may just have died
                    batch.end.set_result(self.results(batch, set()))
            self.settle()
        assert self.closer.done()
        self.nothing_was_violated()
        self.counters_conserve()
        assert all(request.ended for request in self.requests)
        assert not asyncio.all_tasks(self.loop)
        assert not [timer for timer in self.loop._scheduled if not timer.cancelled()]
        stats = self.dispatcher.stats()
        assert (stats.queued, stats.running) == (0, 0)
        assert sum(stats.requests.values()) == len(self.requests)
        self.loop.close()

    # ----------------------------------------------------------------------------------- helpers

    @property
    def now(self) -> float:
        return self.loop.now

    def settle(self, turns: int = TURNS) -> None:
        async def turn() -> None:
            for _ in range(turns):
                await asyncio.sleep(0)

        self.loop.run_until_complete(turn())
        if turns == TURNS:
            for request in self.requests:
                request.gone = request.ended

    def results(self, batch: Running, poison: set[int]) -> list[Any]:
        for index in poison:
            if index < len(batch.members):
                batch.members[index].poisoned = True
        return [
            Poison() if index in poison else ("of", member.number)
            for index, member in enumerate(batch.members)
        ]

    def look_who_is_passed(self, members: list[Request]) -> None:
        """P3: of the jobs of a key, one that came earlier and expires no later leaves no later, but
        for one batch that had no room for it; a batch lists the oldest first.

        How much room a batch had is known of policies that always ask for a full one; it was as
        much as the batch took at least.
        """
        arrivals = [member.arrived for member in members]
        if arrivals != sorted(arrivals) and not any(member.dispatched for member in members):
            self.violations.append(f"P3: {arrivals} are not in their order")
        fresh = [member for member in members if not member.dispatched]
        size = sum(member.size for member in members)
        for request in self.requests:
            if request.key != members[0].key or request.dispatched or not request.waits:
                continue
            if request not in members and any(request.goes_before(member) for member in fresh):
                ahead = sum(each.size for each in members if not request.goes_before(each))
                room = self.limits.max_batch_size if self.policy in FILLING else 0
                fitted = ahead + request.size <= size or size + request.size <= room
                if request.passed or fitted:
                    self.passed_over.append((request, self.now))
                request.passed = True

    def taken(self, started: Running) -> None:
        """A batch starts: P3 to P6."""
        members = started.members
        batch = [member.number for member in members]
        if sum(member.size for member in members) > self.limits.max_batch_size:
            self.violations.append(f"P4: {batch} is larger than max_batch_size")
        if len({member.key for member in members}) != 1:
            self.violations.append(f"{batch} mixes keys")
        if started.worker not in self.puppets.alive:
            self.violations.append(f"P5: {batch} has no worker")
        if started.worker in {running.worker for running in self.puppets.running}:
            self.violations.append(f"P5: {batch} runs beside another on one worker")
        self.look_who_is_passed(members)
        for member in members:
            member.dispatched += 1
            member.held = True
            member.poisoned = False
            if member.deadline <= self.now:
                self.violations.append(f"P6: {member.number} has expired")
            if member.gone:
                self.violations.append(f"P6: the caller of {member.number} has gone")

    async def call(self, request: Request, patience: float | None) -> None:
        """One caller: P2, and every error where it belongs."""
        explained = False
        try:
            result = await self.dispatcher.submit(request, patience, request.key, request.size)
        except asyncio.CancelledError:
            raise
        except (Poison, StopAsyncIteration, TimeoutError, BatchFunctionError, WorkerLost):
            explained = request.poisoned
        except Quarantined:
            explained = request.poisoned and request.dispatched >= 2
        except JobTooLarge:
            explained = request.size > self.limits.max_batch_size
        except QueueFull:
            explained = self.limits.max_queue == 6
        except Overloaded:
            request.refused_at = self.now
            explained = request.deadline < inf
        except DeadlineExceeded:
            request.expired = True
            explained = request.deadline <= self.now
        except Draining:
            explained = self.closing
        except Exception as error:  # noqa: BLE001  whatever it is, it is not explained
            self.violations.append(f"{request} got {error!r}")
        else:
            explained = result == ("of", request.number) and not request.poisoned
        request.answers += 1
        if not explained or request.answers != 1:
            self.violations.append(f"P1, P2: {request} got what isn't its own")


Dispatching.TestCase.settings = settings(max_examples=100, stateful_step_count=40)
TestDispatching = Dispatching.TestCase
