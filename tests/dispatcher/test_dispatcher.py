"""The dispatcher told as stories, in virtual time and with real workers."""

import asyncio
import contextvars
import functools
import logging
import types
from collections.abc import Callable, Coroutine
from math import inf, nan
from types import SimpleNamespace
from typing import Any

import pytest

from adaptive_batching.core import (
    Batch,
    BatchRecord,
    Dispatch,
    Hold,
    Job,
    JobOutcome,
    Limits,
    Reason,
    Situation,
)
from adaptive_batching.dispatcher import Dispatcher
from adaptive_batching.dispatcher.calls import PENDING
from adaptive_batching.dispatcher.share import OfClass
from adaptive_batching.errors import (
    DeadlineExceeded,
    Draining,
    InvalidItem,
    JobTooLarge,
    NoWorkers,
    Overloaded,
    PolicyError,
    QueueFull,
    WorkerLost,
    WorkerStartError,
    WrongEventLoop,
)
from adaptive_batching.workers.interface import Health
from adaptive_batching.workers.local import TaskWorkers, ThreadWorkers
from tests.virtual_time import VirtualTimeLoop, hold_the_loop, run_virtually


def virtually(story: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Tell a story in virtual time."""

    @functools.wraps(story)
    def told(*args: Any, **kwargs: Any) -> None:
        run_virtually(story(*args, **kwargs))

    return told


def dispatcher_of(
    handler: Any, workers: int = 1, *, policy: Any = "greedy", observers: Any = (), **limits: Any
) -> Dispatcher[Any, Any]:
    return Dispatcher(
        TaskWorkers(handler, workers),
        Limits(**limits),
        policy=policy,
        clock=asyncio.get_running_loop().time,
        observers=observers,
    )


def calls(dispatcher: Dispatcher[Any, Any], *items: Any, **options: Any) -> list[asyncio.Task[Any]]:
    """Several callers at once."""
    return [asyncio.ensure_future(dispatcher.submit(item, **options)) for item in items]


async def outcomes(tasks: list[asyncio.Task[Any]]) -> list[Any]:
    return await asyncio.gather(*tasks, return_exceptions=True)


async def turns(count: int = 8) -> None:
    """Let happen what can happen now."""
    for _ in range(count):
        await asyncio.sleep(0)


class Puppet:
    """A handler whose batches end when the test says so."""

    def __init__(self) -> None:
        self.batches: list[list[Any]] = []
        self.ends: list[asyncio.Future[Any]] = []

    async def __call__(self, items: list[Any]) -> Any:
        self.batches.append(items)
        self.ends.append(asyncio.get_running_loop().create_future())
        return await self.ends[-1]

    def finish(self, batch: int = -1) -> None:
        """Answer each item with its tenfold."""
        self.ends[batch].set_result([10 * item for item in self.batches[batch]])


async def tenfold(items: list[int]) -> list[int]:
    await asyncio.sleep(0.01 + 0.001 * len(items))
    return [10 * item for item in items]


# ---------------------------------------------------------------------------------------- results


@virtually
async def test_each_caller_gets_its_own_result() -> None:
    """A hundred callers, a hundred answers, none swapped."""
    async with dispatcher_of(tenfold, workers=3, max_batch_size=7) as dispatcher:
        assert await outcomes(calls(dispatcher, *range(100))) == [10 * i for i in range(100)]


@virtually
async def test_what_arrives_together_leaves_together() -> None:
    """Callers of one turn of the loop share a batch though a worker was free for the first."""
    puppet = Puppet()
    dispatcher = dispatcher_of(puppet)
    await dispatcher.start()
    calls(dispatcher, 1, 2, 3)
    await turns()
    assert puppet.batches == [[1, 2, 3]]
    puppet.finish()
    await dispatcher.aclose()


@virtually
async def test_a_lone_call_does_not_wait_for_company() -> None:
    """F16: an idle worker takes it at once; it takes what its batch takes and no more."""
    async with dispatcher_of(tenfold, policy="cork", max_latency=60.0) as dispatcher:
        for _ in range(20):
            begun = asyncio.get_running_loop().time()
            await dispatcher.submit(1)
            assert asyncio.get_running_loop().time() == begun + (0.01 + 0.001 * 1)
            await asyncio.sleep(1.0)


@virtually
async def test_only_equal_keys_share_a_batch() -> None:
    """Two keys, two batches, each in the order of arrival."""
    puppet = Puppet()
    dispatcher = dispatcher_of(puppet, workers=2)
    await dispatcher.start()
    calls(dispatcher, 1, 2, key="a")
    calls(dispatcher, 3, key=("b", 1))
    calls(dispatcher, 4, key="a")
    await turns()
    assert puppet.batches == [[1, 2, 4], [3]]
    puppet.finish(0)
    puppet.finish(1)
    await dispatcher.aclose()


@virtually
async def test_the_size_of_a_batch_counts_items() -> None:
    """Three calls of two items do not fit into a batch of five."""
    puppet = Puppet()
    dispatcher = dispatcher_of(puppet, workers=2, max_batch_size=5)
    await dispatcher.start()
    calls(dispatcher, 1, 2, 3, size=2)
    await turns()
    assert puppet.batches == [[1, 2], [3]]
    puppet.finish(0)
    puppet.finish(1)
    await dispatcher.aclose()


@virtually
async def test_results_that_are_exceptions_belong_to_their_item() -> None:
    """One poisoned item fails alone; its neighbours get their answers."""
    wrong = ValueError("two is wrong")

    async def handler(items: list[int]) -> list[Any]:
        return [wrong if item == 2 else item for item in items]

    async with dispatcher_of(handler) as dispatcher:
        assert await outcomes(calls(dispatcher, 1, 2, 3)) == [1, wrong, 3]
        assert dispatcher.stats().requests[JobOutcome.FAILED] == 1


# ---------------------------------------------------------------------------------------- refusal


@virtually
async def test_no_worker_before_the_deadline() -> None:
    """A call whose deadline passes in the queue ends at that instant and is never computed."""
    puppet = Puppet()
    dispatcher = dispatcher_of(puppet, max_latency=inf)
    await dispatcher.start()
    (first,) = calls(dispatcher, 1)
    await turns()
    (second,) = calls(dispatcher, 2, max_latency=0.5)
    with pytest.raises(DeadlineExceeded, match=r"0\.500 s in the queue"):
        await second
    assert asyncio.get_running_loop().time() == 0.5
    puppet.finish()
    assert await first == 10
    await dispatcher.aclose()
    assert puppet.batches == [[1]]


@virtually
async def test_a_batch_that_runs_beyond_the_deadline() -> None:
    """Each member is told at its own deadline; the batch goes on for those who still wait."""
    puppet = Puppet()
    dispatcher = dispatcher_of(puppet, policy="window:1ms")
    await dispatcher.start()
    (hasty,) = calls(dispatcher, 1, max_latency=0.2)
    (patient,) = calls(dispatcher, 2)
    with pytest.raises(DeadlineExceeded, match=r"its batch still ran after 0\.200 s"):
        await hasty
    assert asyncio.get_running_loop().time() == 0.2
    await asyncio.sleep(1.0)
    puppet.finish()
    assert await patient == 20
    await dispatcher.aclose()
    requests = dispatcher.stats().requests
    assert (requests[JobOutcome.DONE], requests[JobOutcome.EXPIRED]) == (1, 1)


@virtually
async def test_an_answer_in_the_turn_of_the_deadline_is_given() -> None:
    """The batch ends in the turn of the loop in which the timer of its deadline fires."""
    puppet = Puppet()
    dispatcher = dispatcher_of(puppet)
    await dispatcher.start()
    (call,) = calls(dispatcher, 1, max_latency=0.2)
    await turns()
    asyncio.get_running_loop().call_at(0.2, puppet.finish)
    assert await call == 10
    await dispatcher.aclose()


@virtually
async def test_the_first_call_waits_for_the_workers() -> None:
    """Its time begins when they are ready, so that loading a model is not lateness."""

    class Slow(TaskWorkers):
        async def start(self, on_change: Callable[[], None]) -> None:
            await asyncio.sleep(30.0)
            await super().start(on_change)

    loop = asyncio.get_running_loop()
    dispatcher = Dispatcher[int, int](Slow(tenfold, 1), Limits(64, 0.1), clock=loop.time)
    assert not dispatcher.ready
    assert await dispatcher.submit(1) == 10
    assert dispatcher.ready
    await dispatcher.aclose()


@virtually
async def test_closing_while_the_workers_start() -> None:
    """Who waits for them is told, not cancelled."""

    class Never(TaskWorkers):
        async def start(self, on_change: Callable[[], None]) -> None:
            await asyncio.Event().wait()

    dispatcher = Dispatcher[int, int](Never(tenfold, 1), Limits())
    (waiting,) = calls(dispatcher, 1)
    await turns()
    await dispatcher.aclose(timeout=1.0)
    with pytest.raises(Draining, match="while its workers started"):
        await waiting


@virtually
async def test_no_worker_can_be_back_in_time() -> None:
    """When the last one dies, who can't wait for the next is told at once; the others wait."""

    class Mortal(TaskWorkers):
        dead = False

        @property
        def health(self) -> Health:
            return Health(frozenset(), 1) if self.dead else super().health

        async def start(self, on_change: Callable[[], None]) -> None:
            await asyncio.sleep(2.0)
            self.changed = on_change
            await super().start(on_change)

    loop = asyncio.get_running_loop()
    workers = Mortal(tenfold, 1)
    dispatcher = Dispatcher[int, int](workers, Limits(), clock=loop.time, policy="window:1s")
    await dispatcher.start()
    (hasty,) = calls(dispatcher, 1, max_latency=1.5)
    (patient,) = calls(dispatcher, 2, max_latency=9.0)
    await turns()
    workers.dead = True
    workers.changed()
    with pytest.raises(NoWorkers, match="nor will one be for") as refusal:
        await hasty
    assert refusal.value.retry_after == 2.0
    with pytest.raises(NoWorkers):
        await dispatcher.submit(3, max_latency=1.0)
    assert loop.time() == 2.0
    workers.dead = False
    workers.changed()
    assert await patient == 20
    await dispatcher.aclose()


@virtually
async def test_flushing_releases_and_still_accepts() -> None:
    """What a policy would hold leaves at once, and so does what comes afterwards."""
    dispatcher = dispatcher_of(tenfold, policy="window:60s")
    await dispatcher.start()
    corked = calls(dispatcher, 1, 2)
    await turns()
    dispatcher.flush()
    assert await asyncio.gather(*corked) == [10, 20]
    assert await dispatcher.submit(3) == 30
    assert asyncio.get_running_loop().time() < 1.0
    await dispatcher.aclose()


@virtually
async def test_a_call_may_be_more_or_less_patient_than_the_rest() -> None:
    """`max_latency` of one call replaces the limit's, in both directions."""
    puppet = Puppet()
    dispatcher = dispatcher_of(puppet, max_latency=0.5)
    await dispatcher.start()
    calls(dispatcher, 1)
    await turns()
    (patient,) = calls(dispatcher, 2, max_latency=9.0)
    (hasty,) = calls(dispatcher, 3, max_latency=0.25)
    with pytest.raises(DeadlineExceeded):
        await hasty
    assert asyncio.get_running_loop().time() == 0.25
    await asyncio.sleep(5.0)
    puppet.finish()
    await turns()
    puppet.finish()
    assert await patient == 20
    await dispatcher.aclose()


@virtually
async def test_overload_is_refused_early_and_says_when_to_come_again() -> None:
    """Who can't be answered in time is told at once, with the seconds after which to try again."""
    async with dispatcher_of(
        tenfold, policy="cork", max_batch_size=4, max_latency=0.05
    ) as dispatcher:
        for _ in range(10):
            await dispatcher.submit(1)
        answers = await outcomes(calls(dispatcher, *range(100)))
        refused = [answer for answer in answers if isinstance(answer, Overloaded)]
        assert refused
        at_the_door = [answer for answer in refused if answer.retry_after > 0]
        assert len(at_the_door) > 80  # the others were shed when the queue was empty but for them
        assert all(answer.status == 503 for answer in refused)
        assert len(refused) < 100
        assert dispatcher.stats().requests[JobOutcome.SHED] == len(refused)


@virtually
async def test_a_full_queue() -> None:
    """Beyond max_queue waiting items a call is refused at once; the others are not harmed."""
    puppet = Puppet()
    dispatcher = dispatcher_of(puppet, max_queue=2)
    await dispatcher.start()
    running = calls(dispatcher, 1)
    await turns()
    waiting = calls(dispatcher, 2, 3)
    await turns()
    with pytest.raises(QueueFull, match="2 of max_queue=2"):
        await dispatcher.submit(4)
    puppet.finish()
    await turns()
    puppet.finish()
    assert await outcomes(running + waiting) == [10, 20, 30]
    assert dispatcher.stats().requests[JobOutcome.QUEUE_FULL] == 1
    await dispatcher.aclose()


@virtually
async def test_a_call_larger_than_any_batch() -> None:
    """It would wait for ever: refused, with expected and got."""
    async with dispatcher_of(tenfold, max_batch_size=4) as dispatcher:
        with pytest.raises(JobTooLarge, match="at most max_batch_size=4 items, got 5"):
            await dispatcher.submit(1, size=5)


@pytest.mark.parametrize("size", [0, -1])
@virtually
async def test_a_call_of_no_items(size: int) -> None:
    """A size below one is a mistake of the program: told, not awaited for ever."""
    async with dispatcher_of(tenfold) as dispatcher:
        with pytest.raises(ValueError, match="size"):
            await dispatcher.submit(1, size=size)


@virtually
async def test_the_limits_own_default_promises_nothing() -> None:
    """Without max_latency nothing is refused for lateness, however long the queue."""
    async with dispatcher_of(tenfold, policy="cork", max_batch_size=2) as dispatcher:
        assert await outcomes(calls(dispatcher, *range(500))) == [10 * i for i in range(500)]


# ----------------------------------------------------------------------------------- cancellation


@virtually
async def test_a_caller_that_leaves_the_queue_is_not_computed() -> None:
    """It never reaches the handler, makes room at once, and is counted as cancelled."""
    puppet = Puppet()
    dispatcher = dispatcher_of(puppet, max_queue=2)
    await dispatcher.start()
    running = calls(dispatcher, 1)
    await turns()
    waiting = calls(dispatcher, 2, 3)
    await turns()
    waiting[0].cancel()
    await turns()
    assert dispatcher.stats().queued == 1
    waiting += calls(dispatcher, 4)
    await turns()
    puppet.finish()
    await turns()
    puppet.finish()
    assert await outcomes(running + waiting[1:]) == [10, 30, 40]
    assert waiting[0].cancelled()
    assert puppet.batches == [[1], [3, 4]]
    assert dispatcher.stats().requests[JobOutcome.CANCELLED] == 1
    await dispatcher.aclose()


@virtually
async def test_a_caller_that_leaves_its_batch_harms_nobody() -> None:
    """The batch goes on, the neighbours get their own results."""
    puppet = Puppet()
    dispatcher = dispatcher_of(puppet)
    await dispatcher.start()
    tasks = calls(dispatcher, 1, 2, 3)
    await turns()
    tasks[1].cancel()
    await turns()
    assert tasks[1].cancelled()
    puppet.finish()
    assert await outcomes([tasks[0], tasks[2]]) == [10, 30]
    await dispatcher.aclose()
    assert dispatcher.stats().requests[JobOutcome.CANCELLED] == 1


@pytest.mark.parametrize("before", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("first", ["result", "cancel"])
@virtually
async def test_a_caller_that_leaves_in_the_tick_of_its_result(before: int, first: str) -> None:
    """F9: in any order, any number of turns apart, neighbours are answered and the loop lives."""
    complaints: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    puppet = Puppet()
    dispatcher = dispatcher_of(puppet)
    await dispatcher.start()
    tasks = calls(dispatcher, 1, 2, 3)
    await turns()
    for event in ("result", "cancel") if first == "result" else ("cancel", "result"):
        if event == "result":
            puppet.finish()
        else:
            tasks[1].cancel()
        await turns(before)
    assert await outcomes([tasks[0], tasks[2]]) == [10, 30]
    await dispatcher.aclose()
    assert not complaints
    assert sum(dispatcher.stats().requests.values()) == 3


@virtually
async def test_every_caller_of_a_queued_batch_leaves() -> None:
    """The handler is never called for nobody, and the permit is still there."""
    puppet = Puppet()
    dispatcher = dispatcher_of(puppet, policy="window:1s")
    await dispatcher.start()
    tasks = calls(dispatcher, 1, 2)
    await turns()
    for task in tasks:
        task.cancel()
    await asyncio.sleep(5.0)
    assert puppet.batches == []
    tasks = calls(dispatcher, 3)
    await asyncio.sleep(5.0)
    puppet.finish()
    assert await outcomes(tasks) == [30]
    await dispatcher.aclose()


@virtually
async def test_a_timeout_of_the_caller() -> None:
    """`asyncio.timeout` ends the wait with TimeoutError: the cancellation is not swallowed."""
    puppet = Puppet()
    dispatcher = dispatcher_of(puppet)
    await dispatcher.start()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.0):
            await dispatcher.submit(1)
    puppet.finish()
    await dispatcher.aclose()


# ------------------------------------------------------------------------------------ eager tasks


class FirstStepAtOnce:
    """A task factory that runs a coroutine's first step at once, which Python 3.11 has none for."""

    def __call__(
        self, loop: asyncio.AbstractEventLoop, coroutine: Any, context: Any = None
    ) -> asyncio.Future[Any]:
        if not loop.is_running():
            return asyncio.Task(coroutine, loop=loop, context=context)
        context = contextvars.copy_context() if context is None else context
        try:
            first = context.run(coroutine.send, None)
        except StopIteration as end:
            ended = loop.create_future()
            ended.set_result(end.value)
            return ended
        return asyncio.Task(self.go_on(coroutine, first), loop=loop, context=context)

    @staticmethod
    @types.coroutine
    def go_on(coroutine: Any, awaited: Any) -> Any:
        while True:
            try:
                try:
                    result = yield awaited
                except BaseException as error:  # noqa: BLE001  a cancellation too
                    awaited = coroutine.throw(error)
                else:
                    awaited = coroutine.send(result)
            except StopIteration as end:
                return end.value


async def at_once(items: list[int]) -> list[int]:
    return [10 * item for item in items]


@pytest.mark.parametrize("next_batch_first", [False, True])
@pytest.mark.parametrize("handler", [at_once, tenfold])
@virtually
async def test_eager_tasks(handler: Any, *, next_batch_first: bool) -> None:
    """Under an eager task factory each call is answered, whether its handler suspends or not."""
    loop = asyncio.get_running_loop()
    loop.set_task_factory(getattr(asyncio, "eager_task_factory", FirstStepAtOnce()))
    dispatcher = Dispatcher[int, int](
        TaskWorkers(handler, 2),
        Limits(max_batch_size=2, max_latency=100.0),
        clock=loop.time,
        next_batch_first=next_batch_first,
    )
    async with asyncio.timeout(50.0):
        async with dispatcher:
            answers = [dispatcher.submit(number) for number in range(4000)]
            assert await asyncio.gather(*answers) == [10 * number for number in range(4000)]
            assert await dispatcher.submit(7) == 70
            assert dispatcher.stats().running == 0


# -------------------------------------------------------------------------------- closing, opening


@virtually
async def test_closing_lets_the_queue_finish() -> None:
    """Leaving `async with` answers everyone who waits; what a policy would hold leaves at once."""
    async with dispatcher_of(tenfold, policy="window:100s", max_batch_size=2) as dispatcher:
        tasks = calls(dispatcher, 1, 2, 3)
        await turns()
    assert [task.result() for task in tasks] == [10, 20, 30]
    assert asyncio.get_running_loop().time() < 1.0
    assert dispatcher.stats().releases[Reason.DRAIN] == 1


@virtually
async def test_closing_twice_and_at_once() -> None:
    """Two closers both return, and a closed dispatcher may be closed again."""
    dispatcher = dispatcher_of(tenfold)
    await dispatcher.aclose()  # never used
    tasks = calls(dispatcher, 1)
    await turns()
    await asyncio.gather(dispatcher.aclose(), dispatcher.aclose())
    await dispatcher.aclose()
    assert await outcomes(tasks) == [10]


@virtually
async def test_closing_when_the_last_caller_leaves_and_no_worker_is_there() -> None:
    """Nobody is left to wait for."""

    class Absent(TaskWorkers):
        health = Health(frozenset(), None)

    loop = asyncio.get_running_loop()
    dispatcher = Dispatcher[int, int](Absent(tenfold, 1), Limits(), clock=loop.time)
    await dispatcher.start()
    (call,) = calls(dispatcher, 1)
    await turns()
    closing = asyncio.ensure_future(dispatcher.aclose())
    await turns()
    assert not closing.done()
    call.cancel()
    async with asyncio.timeout(1.0):
        await closing


@virtually
async def test_a_drain_that_takes_too_long() -> None:
    """After the timeout, who waits is refused as Draining and who runs has lost the worker."""
    puppet = Puppet()
    dispatcher = dispatcher_of(puppet)
    await dispatcher.start()
    running = calls(dispatcher, 1)
    await turns()
    waiting = calls(dispatcher, 2, 3)
    await turns()
    await dispatcher.aclose(timeout=2.0)
    assert asyncio.get_running_loop().time() == 2.0
    assert [type(error) for error in await outcomes(running + waiting)] == [
        WorkerLost,
        Draining,
        Draining,
    ]
    assert asyncio.all_tasks() == {asyncio.current_task()}


@virtually
async def test_a_call_after_closing() -> None:
    """It is refused, not hung."""
    async with dispatcher_of(tenfold) as dispatcher:
        await dispatcher.submit(1)
    with pytest.raises(Draining):
        await dispatcher.submit(2)


@virtually
async def test_opening_again() -> None:
    """A closed dispatcher that is started again works, with counts that begin anew."""
    dispatcher = dispatcher_of(tenfold)
    for _ in range(3):
        async with dispatcher:
            assert await dispatcher.submit(1) == 10
            assert dispatcher.stats().batches == 1


@virtually
async def test_nothing_is_left_behind() -> None:
    """P9: after closing there is no task and no timer of ours."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    async with dispatcher_of(tenfold, policy="cork", max_latency=10.0, workers=2) as dispatcher:
        await outcomes(calls(dispatcher, *range(300)))
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert not [timer for timer in loop._scheduled if not timer.cancelled()]


@virtually
async def test_workers_that_can_not_start() -> None:
    """Every caller is told why, now and later; nobody waits for ever."""

    class Broken:
        def __init__(self) -> None:
            raise OSError("no such model")

        async def __call__(self, items: list[Any]) -> list[Any]:
            return items

    dispatcher = dispatcher_of(Broken)
    with pytest.raises(WorkerStartError, match="no such model"):
        await dispatcher.submit(1)
    with pytest.raises(WorkerStartError, match="no such model"):
        await dispatcher.submit(2)
    with pytest.raises(WorkerStartError, match="no such model"):
        await dispatcher.start()
    await dispatcher.aclose()


@virtually
async def test_workers_that_fail_in_an_unforeseen_way() -> None:
    """No memory, no file descriptors: whatever `start` raises, no caller waits for ever."""

    class Unlucky(TaskWorkers):
        async def start(self, on_change: Callable[[], None]) -> None:
            raise OSError("too many open files")

    dispatcher = Dispatcher[int, int](Unlucky(tenfold, 1), Limits())
    with pytest.raises((OSError, WorkerStartError), match="too many open files"):
        async with asyncio.timeout(60.0):
            await dispatcher.submit(1)


# ---------------------------------------------------------------------------- loops and contexts


def test_one_loop_after_another() -> None:
    """Each asyncio.run finds the dispatcher working, also when the one before did not close it."""
    dispatcher = Dispatcher[int, int](TaskWorkers(tenfold, 1), Limits())
    for _ in range(3):
        assert asyncio.run(dispatcher.submit(1)) == 10


def test_two_loops_at_the_same_time() -> None:
    """The second is told so at once; the first goes on."""
    dispatcher = Dispatcher[int, int](TaskWorkers(tenfold, 1), Limits())

    async def elsewhere() -> None:
        with pytest.raises(WrongEventLoop, match="another event loop"):
            await dispatcher.submit(1)

    async def main() -> None:
        assert await dispatcher.submit(1) == 10
        await asyncio.to_thread(asyncio.run, elsewhere())
        assert await dispatcher.submit(1) == 10
        await dispatcher.aclose()

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["task", "thread"])
async def test_no_batch_runs_in_its_callers_context(kind: str) -> None:
    """B8: one caller's context variables (a user, a trace) never reach a batch of many."""
    user = contextvars.ContextVar("user", default="nobody")

    async def in_task(items: list[Any]) -> list[str]:
        return [user.get() for _ in items]

    def in_thread(items: list[Any]) -> list[str]:
        return [user.get() for _ in items]

    workers = TaskWorkers(in_task, 1) if kind == "task" else ThreadWorkers(in_thread, 1)
    dispatcher = Dispatcher[Any, str](workers, Limits())

    async def call(name: str) -> tuple[str, str]:
        user.set(name)
        return await dispatcher.submit(name), user.get()

    for _ in range(2):
        answers = await asyncio.gather(*(call(name) for name in ("ann", "bob")))
        assert answers == [("nobody", "ann"), ("nobody", "bob")]
    await dispatcher.aclose()


# --------------------------------------------------------------------------- policies, observers


class _Policy:
    """Decides as it is told."""

    def __init__(self, decide: Callable[[Situation], Any]) -> None:
        self.decide = decide
        self.observed: list[BatchRecord] = []

    def observe(self, batch: BatchRecord) -> None:
        self.observed.append(batch)


@virtually
async def test_a_policy_of_ones_own() -> None:
    """Pairs leave together, whatever else: any object with decide and observe will do."""

    def pairs(queue: Situation) -> Dispatch | Hold:
        return Dispatch(2, Reason.FULL) if queue.items >= 2 else Hold()

    policy = _Policy(pairs)
    puppet = Puppet()
    dispatcher = dispatcher_of(puppet, workers=2, policy=policy)
    await dispatcher.start()
    tasks = calls(dispatcher, 1, 2, 3)
    await asyncio.sleep(10.0)
    assert puppet.batches == [[1, 2]]
    tasks += calls(dispatcher, 4)
    await turns()
    puppet.finish(0)
    puppet.finish(1)
    assert await outcomes(tasks) == [10, 20, 30, 40]
    await turns()
    assert [record.size for record in policy.observed] == [2, 2]
    await dispatcher.aclose()


@pytest.mark.parametrize(
    ("decision", "complaint"),
    [
        (Hold(-1.0), "expected a Hold.until later than now"),
        (Dispatch(0, Reason.FULL), "expected a Dispatch of at least"),
        (None, "expected Dispatch, Hold or Shed"),
    ],
)
@virtually
async def test_a_policys_mistakes_reach_the_callers(decision: Any, complaint: str) -> None:
    """Nobody waits for a policy that can't decide: each gets an error that names it."""
    dispatcher = dispatcher_of(tenfold, policy=_Policy(lambda _: decision))
    for _ in range(2):
        errors = await outcomes(calls(dispatcher, 1, 2))
        assert [type(error) for error in errors] == [PolicyError, PolicyError]
        assert all(complaint in str(error) for error in errors)
        assert "_Policy.decide" in str(errors[0])
    await dispatcher.aclose()
    assert dispatcher.stats().requests[JobOutcome.FAILED] == 4


@virtually
async def test_a_policy_that_can_not_observe() -> None:
    """The batch is not to blame: its members get their results; the policy is given up by name."""

    class Blind(_Policy):
        def observe(self, batch: BatchRecord) -> None:
            raise LookupError("where?")

    puppet = Puppet()
    dispatcher = dispatcher_of(puppet, policy=Blind(lambda _: Dispatch(1, Reason.FULL)))
    tasks = calls(dispatcher, 1, 2)
    await turns()
    puppet.finish()
    assert await tasks[0] == 10
    with pytest.raises(PolicyError, match=r"Blind.observe raised LookupError: where\?"):
        await tasks[1]
    await dispatcher.aclose()


@virtually
async def test_a_policy_that_can_not_observe_when_nobody_waits(caplog) -> None:
    """All are answered; the log says it, once."""

    class Blind(_Policy):
        def observe(self, batch: BatchRecord) -> None:
            raise LookupError("where?")

    dispatcher = dispatcher_of(tenfold, policy=Blind(lambda _: Dispatch(1, Reason.FULL)))
    assert [await dispatcher.submit(number) for number in (1, 2, 3)] == [10, 20, 30]
    await dispatcher.aclose()
    [said] = caplog.messages
    assert "Blind.observe raised LookupError: where?" in said


class _Deaf:
    """An observer that fails."""

    def batch_ended(self, batch: Batch, record: BatchRecord) -> None:
        raise RuntimeError("what?")


@virtually
async def test_observers_see_every_batch() -> None:
    """With its members and its record, before they are answered."""
    seen: list[tuple[list[Any], int]] = []
    observer = SimpleNamespace(
        batch_ended=lambda batch, record: seen.append(
            ([job.outcome is not PENDING for job in batch.jobs], record.size)
        )
    )
    async with dispatcher_of(tenfold, max_batch_size=2, observers=[observer]) as dispatcher:
        await outcomes(calls(dispatcher, 1, 2, 3))
    assert seen == [([False, False], 2), ([False], 1)]


@virtually
async def test_an_observer_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Dispatching goes on, and the log says what is wrong."""
    async with dispatcher_of(tenfold, observers=[_Deaf()]) as dispatcher:
        with caplog.at_level(logging.ERROR, "adaptive_batching"):
            assert await outcomes(calls(dispatcher, 1, 2)) == [10, 20]
            assert await dispatcher.submit(3) == 30
    assert "an observer failed" in caplog.text
    assert "what?" in caplog.text


@virtually
async def test_an_observer_that_fails_does_not_silence_the_next() -> None:
    """Metrics go on when a trace exporter breaks."""
    seen: list[BatchRecord] = []
    listener = SimpleNamespace(batch_ended=lambda batch, record: seen.append(record))
    logging.getLogger("adaptive_batching").disabled = True
    try:
        async with dispatcher_of(tenfold, observers=[_Deaf(), listener]) as dispatcher:
            await dispatcher.submit(1)
    finally:
        logging.getLogger("adaptive_batching").disabled = False
    assert len(seen) == 1


@virtually
async def test_observers_of_jobs_hear_of_each() -> None:
    """Before it is answered, with its batch if it had one; one that fails is logged and no more."""
    seen: list[tuple[list[Any], JobOutcome, bool]] = []

    def hear(jobs: Any, outcome: JobOutcome, now: float, batch: BatchRecord | None) -> None:
        seen.append(([job.item for job in jobs], outcome, batch is not None))
        assert all(job.outcome is PENDING for job in jobs)

    listener = SimpleNamespace(batch_ended=lambda batch, record: None, jobs_ended=hear)
    broken = SimpleNamespace(batch_ended=lambda batch, record: None, jobs_ended=None)
    logging.getLogger("adaptive_batching").disabled = True
    try:
        observers = [broken, listener]
        async with dispatcher_of(tenfold, max_batch_size=2, observers=observers) as dispatcher:
            await outcomes(calls(dispatcher, 1, 2))
            await outcomes(calls(dispatcher, 3, size=5))
    finally:
        logging.getLogger("adaptive_batching").disabled = False
    assert seen == [([1, 2], JobOutcome.DONE, True), ([3], JobOutcome.SHED, False)]


@virtually
async def test_observers_of_jobs_hear_once_of_who_expired_in_a_batch() -> None:
    """When he is due, not again when his batch ends; who has left is told with the batch."""
    seen: list[tuple[list[Any], JobOutcome, bool]] = []

    def hear(jobs: Any, outcome: JobOutcome, now: float, batch: BatchRecord | None) -> None:
        seen.append(([job.item for job in jobs], outcome, batch is not None))

    puppet = Puppet()
    listener = SimpleNamespace(batch_ended=lambda batch, record: None, jobs_ended=hear)
    dispatcher = dispatcher_of(puppet, max_batch_size=3, observers=[listener])
    await dispatcher.start()
    tasks = calls(dispatcher, 1, max_latency=0.5) + calls(dispatcher, 2, 3)
    await asyncio.sleep(1.0)
    tasks[2].cancel()
    await turns()
    puppet.finish()
    await outcomes(tasks)
    await dispatcher.aclose()
    assert seen == [
        ([1], JobOutcome.EXPIRED, False),
        ([2], JobOutcome.DONE, True),
        ([3], JobOutcome.CANCELLED, True),
    ]
    assert dispatcher.stats().requests[JobOutcome.EXPIRED] == 1


@virtually
async def test_an_answer_that_is_there_when_a_late_loop_looks_is_given_and_counts_as_late() -> None:
    """A handler keeps the loop for 0.25 s: no timer could fire after 0.2 s, and one is just due."""
    seen: list[tuple[list[Any], JobOutcome, bool]] = []

    def hear(jobs: Any, outcome: JobOutcome, now: float, batch: BatchRecord | None) -> None:
        seen.append(([job.item for job in jobs], outcome, batch is not None))

    async def computes(items: list[int]) -> list[int | Exception]:
        hold_the_loop(0.25)
        return [InvalidItem("$", "three") if item == 3 else 10 * item for item in items]

    listener = SimpleNamespace(batch_ended=lambda batch, record: None, jobs_ended=hear)
    dispatcher = dispatcher_of(computes, observers=[listener])
    await dispatcher.start()
    tasks = calls(dispatcher, 1, 3, max_latency=0.2) + calls(dispatcher, 2, max_latency=0.25)
    one, three, two = await outcomes(tasks)
    assert (one, two) == (10, 20)
    assert isinstance(three, InvalidItem)
    requests = dispatcher.stats().requests
    assert (requests[JobOutcome.DONE], requests[JobOutcome.EXPIRED]) == (1, 2)
    assert sorted(seen) == [([1, 3], JobOutcome.EXPIRED, True), ([2], JobOutcome.DONE, True)]
    await dispatcher.aclose()


# ------------------------------------------------------------------------------------------ stats


@virtually
async def test_the_counts_add_up() -> None:
    """P14: done, failed, expired, cancelled and refused are all that was submitted."""
    puppet = Puppet()
    dispatcher = dispatcher_of(puppet, max_batch_size=2, max_queue=4)
    await dispatcher.start()
    tasks = calls(dispatcher, 1, 2, 3, 4)
    await turns()
    tasks += calls(dispatcher, 5, max_latency=0.5)
    tasks += calls(dispatcher, 6)
    await turns()
    tasks += calls(dispatcher, 7)  # 3, 4, 5 and 6 wait
    await turns()
    tasks[2].cancel()
    await asyncio.sleep(1.0)
    stats = dispatcher.stats()
    assert (stats.queued, stats.running, stats.workers) == (2, 1, 1)
    puppet.ends[-1].set_exception(OSError("broken"))
    await turns()
    puppet.finish()
    await outcomes(tasks)
    await dispatcher.aclose()
    stats = dispatcher.stats()
    assert stats.requests == {
        JobOutcome.DONE: 2,
        JobOutcome.FAILED: 2,
        JobOutcome.SHED: 0,
        JobOutcome.QUEUE_FULL: 1,
        JobOutcome.EXPIRED: 1,
        JobOutcome.CANCELLED: 1,
    }
    assert (stats.batches, stats.mean_batch_size) == (2, 2.0)
    assert stats.releases[Reason.FULL] == 2


@virtually
async def test_the_fitted_model_is_shown() -> None:
    """`stats` shows what batches cost, once two sizes were seen."""
    async with dispatcher_of(tenfold, max_batch_size=8) as dispatcher:
        for size in (1, 8, 2, 7, 3, 6) * 10:
            await outcomes(calls(dispatcher, *range(size)))
        stats = dispatcher.stats()
    assert stats.fixed == pytest.approx(0.01, rel=0.1)
    assert stats.per_item == pytest.approx(0.001, rel=0.1)


@pytest.mark.parametrize("patience", [nan, 0.0, -1.0, True])
@virtually
async def test_an_impossible_patience(patience: float) -> None:
    """It is a mistake of the program: told, and the next call is not harmed."""
    async with dispatcher_of(tenfold, policy="window:1ms") as dispatcher:
        with pytest.raises(ValueError, match="max_latency: expected a positive number"):
            await dispatcher.submit(1, max_latency=patience)
        assert await dispatcher.submit(2) == 20


@virtually
async def test_before_its_first_use_it_counts_nothing() -> None:
    """All numbers are zero, and no batch has ever ended; then the last end is known."""
    dispatcher = dispatcher_of(tenfold)
    numbers = list(dispatcher.stats())
    counts = [each for each in numbers if isinstance(each, dict)]
    assert all(not any(each.values()) for each in counts)
    assert not any(each for each in numbers if not isinstance(each, dict))
    assert dispatcher.concluded == -inf
    async with dispatcher:
        await dispatcher.submit(1)
        assert dispatcher.concluded == 0.011


@virtually
async def test_a_caller_who_leaves_while_it_is_closed_is_cancelled() -> None:
    """It is not told of the closing, which it does not wait for any more."""

    class Slow(TaskWorkers):
        async def start(self, on_change: Callable[[], None]) -> None:
            await asyncio.sleep(30.0)

    loop = asyncio.get_running_loop()
    dispatcher = Dispatcher[int, int](Slow(tenfold, 1), Limits(), clock=loop.time)
    staying, leaving = calls(dispatcher, 1, 2)
    await turns()
    assert dispatcher.stats().workers == 0
    closing = asyncio.ensure_future(dispatcher.aclose())
    leaving.cancel()
    await closing
    first, second = await outcomes([staying, leaving])
    assert (type(first), type(second)) == (Draining, asyncio.CancelledError)


def test_observers_of_one_class_hear_of_its_jobs_alone() -> None:
    """Jobs of several classes may end at one instant."""
    heard: list[list[Any]] = []
    listener = SimpleNamespace(
        batch_ended=lambda batch, record: None,
        jobs_ended=lambda jobs, outcome, now, batch: heard.append([job.key for job in jobs]),
    )
    audience = OfClass("mine", [listener])
    jobs = [Job(0.0, key=key) for key in ("mine", "other", "mine")]
    audience.jobs_ended(jobs, JobOutcome.EXPIRED, 1.0, None)
    audience.jobs_ended(jobs[1:2], JobOutcome.EXPIRED, 1.0, None)
    assert heard == [["mine", "mine"]]
