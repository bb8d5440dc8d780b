"""Threads that batch for one another: who leads, who follows, and what becomes of their errors.

Nothing sleeps: a handler that is to be caught in the act waits for an event.
"""

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from adaptive_batching.bench.cooperative import stress
from adaptive_batching.cooperation import Cooperative, ExecutionLock, Handle, cooperative
from adaptive_batching.core import Limits
from adaptive_batching.errors import (
    BatchFunctionError,
    DeadlineExceeded,
    JobTooLarge,
    QueueFull,
    ReentrantCall,
    WorkerLost,
)

PATIENCE = 600.0  # seconds; only a failing test waits that long


class Doubler:
    """Doubles; remembers its batches; the first of them lasts until told to end."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.begun = threading.Event()
        self.may_end = threading.Event()

    def __call__(self, items: list[int]) -> list[int | Exception]:
        self.batches.append(items)
        self.begun.set()
        assert self.may_end.wait(PATIENCE)
        return [ValueError(f"negative: {item}") if item < 0 else 2 * item for item in items]


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


@pytest.fixture
def doubler() -> Doubler:
    return Doubler()


Late = Callable[..., list[Handle[int]]]


@pytest.fixture
def busy(doubler: Doubler, threads: ThreadPoolExecutor) -> Iterator[Cooperative[int, int]]:
    """A queue whose leader runs a batch of one until `doubler.may_end`."""
    queue: Cooperative[int, int] = cooperative(doubler, max_batch_size=4)
    first = threads.submit(queue.call, 1)
    assert doubler.begun.wait(PATIENCE)
    yield queue
    doubler.may_end.set()
    assert first.result(PATIENCE) == 2


def test_who_comes_alone_is_served_at_once() -> None:
    """A single thread runs a batch of one, without waiting for company."""
    queue = cooperative(lambda items: [2 * item for item in items])
    assert [queue.call(item) for item in range(3)] == [0, 2, 4]


def test_latecomers_form_the_next_batch(busy: Cooperative[int, int], doubler: Doubler) -> None:
    """Those who come while a batch runs leave together, as many as fit."""
    handles = [busy.submit(item) for item in range(10, 16)]
    doubler.may_end.set()
    assert [handle.result(PATIENCE) for handle in handles] == [2 * i for i in range(10, 16)]
    assert doubler.batches == [[1], [10, 11, 12, 13], [14, 15]]


def test_callers_bring_several_items(busy: Cooperative[int, int], doubler: Doubler) -> None:
    """Several items of a caller stay together and come back as a list, beside other callers'."""
    handles = [busy.submit_many([1, 2]), busy.submit_many([3]), busy.submit_many([4, 5])]
    doubler.may_end.set()
    assert [handle.result(PATIENCE) for handle in handles] == [[2, 4], [6], [8, 10]]
    assert doubler.batches == [[1], [1, 2, 3], [4, 5]]


def test_an_item_fails_alone(busy: Cooperative[int, int], doubler: Doubler) -> None:
    """An exception in a result's place is raised where that item came from, and nowhere else."""
    good, bad = busy.submit(3), busy.submit(-3)
    doubler.may_end.set()
    assert good.result(PATIENCE) == 6
    with pytest.raises(ValueError, match="negative: -3"):
        bad.result(PATIENCE)


def test_a_batch_that_raises_fails_for_all(threads: ThreadPoolExecutor) -> None:
    """What the handler raises reaches every member, as it is, without growing a traceback."""
    begun, may_fail = threading.Event(), threading.Event()

    def failing(items: list[int]) -> list[int]:
        begun.set()
        assert may_fail.wait(PATIENCE)
        raise LookupError(items)

    queue = cooperative(failing)
    first = threads.submit(queue.call, 0)
    assert begun.wait(PATIENCE)
    handles = [queue.submit(item) for item in (1, 2)]
    may_fail.set()
    with pytest.raises(LookupError, match=r"\[0\]"):
        first.result(PATIENCE)
    depths = []
    for handle in handles:
        with pytest.raises(LookupError, match=r"\[1, 2\]") as caught:
            handle.result(PATIENCE)
        depths.append(len(caught.traceback))
    assert depths[0] == depths[1]


def test_a_wrong_number_of_results_fails_the_batch() -> None:
    """Expected and got are named."""
    queue: Cooperative[int, int] = cooperative(lambda items: items[1:])
    with pytest.raises(BatchFunctionError, match="expected 2 results for a batch of 2, got 1"):
        queue.call_many([1, 2])


def test_limits() -> None:
    """More items than a batch or the queue may hold are refused at once."""
    queue: Cooperative[int, int] = cooperative(lambda items: items, max_batch_size=2, max_queue=3)
    with pytest.raises(JobTooLarge):
        queue.submit_many([1, 2, 3])
    handles = [queue.submit(item) for item in range(3)]
    with pytest.raises(QueueFull):
        queue.submit(3)
    assert [handle.result() for handle in handles] == [0, 1, 2]


def test_a_handler_that_calls_its_own_queue() -> None:
    """It would wait for itself, and is told so; the queue goes on."""

    def nested(items: list[int]) -> list[int]:
        return [queue.call(item - 1) if item else 0 for item in items]

    queue: Cooperative[int, int] = cooperative(nested)
    with pytest.raises(ReentrantCall, match="would wait for itself"):
        queue.call(1)
    assert queue.call(0) == 0


def test_queues_that_call_each_other_under_one_lock() -> None:
    """They would wait for each other, and are told so."""

    def to_pong(items: list[int]) -> list[int]:
        return pong.call_many(items)

    lock = ExecutionLock()
    ping = cooperative(to_pong, lock=lock)
    pong = cooperative(ping.call_many, lock=lock)
    with pytest.raises(ReentrantCall):
        ping.call(1)
    with pytest.raises(ReentrantCall):
        pong.call(1)


def test_the_lock_is_shared_with_other_code(threads: ThreadPoolExecutor) -> None:
    """No batch runs while other code holds the lock; its holder may submit, but not wait."""
    queue: Cooperative[int, int] = cooperative(lambda items: items)
    with queue.lock:
        handle = queue.submit(1)
        with pytest.raises(ReentrantCall):
            handle.result()
        with pytest.raises(ReentrantCall):
            queue.call(2)
        with pytest.raises(TimeoutError, match="ask again"):
            threads.submit(handle.result, 0).result(PATIENCE)
    assert handle.result() == 1


def test_nobody_leads_for_ever(busy: Cooperative[int, int], doubler: Doubler) -> None:
    """A follower whose time is over leaves; the lead goes to one who still waits."""
    early, late = busy.submit(5), busy.submit(6)
    with pytest.raises(TimeoutError):
        early.result(0)
    doubler.may_end.set()
    assert (late.result(PATIENCE), early.result(PATIENCE)) == (12, 10)


def test_a_deadline_while_the_lock_is_held(threads: ThreadPoolExecutor) -> None:
    """Who would lead but gets no turn by his deadline is told so, and his item is not run."""
    ran: list[int] = []

    def noting(items: list[int]) -> list[int]:
        ran.extend(items)
        return items

    queue = cooperative(noting, max_latency=0.02)
    with queue.lock:
        waiting: list[Future[int]] = [threads.submit(queue.call, item) for item in (1, 2)]
        for each in waiting:
            with pytest.raises(DeadlineExceeded, match="in the queue"):
                each.result(PATIENCE)
    assert queue.call(3) == 3
    assert ran == [3]


def test_a_batch_that_ends_too_late() -> None:
    """Its results reach nobody, not even the thread that ran it: no answer is late and silent."""
    now = 0.0

    def slow(items: list[int]) -> list[int]:
        nonlocal now
        now += 2.0
        return items

    limits = Limits(max_batch_size=4, max_latency=1.0, max_queue=4)
    queue = Cooperative[int, int](slow, limits, clock=lambda: now)
    ahead = queue.submit(1)
    for late in (queue.submit(2), ahead):
        with pytest.raises(DeadlineExceeded, match="for its batch to end"):
            late.result()


def test_only_who_holds_the_lock_can_release_it(threads: ThreadPoolExecutor) -> None:
    """Else a slip elsewhere would let two batches run at the same time."""
    lock = ExecutionLock()
    with pytest.raises(RuntimeError, match="by the thread that holds it"):
        lock.release()
    with lock:
        with pytest.raises(RuntimeError, match="by the thread that holds it"):
            threads.submit(lock.release).result(PATIENCE)
        assert lock.held


def test_a_leader_that_is_stopped(threads: ThreadPoolExecutor) -> None:
    """Ctrl-C in the leader stops the leader; its followers are told, and the next one leads."""
    begun, may_end = threading.Event(), threading.Event()

    def stopped(items: list[int]) -> list[int]:
        begun.set()
        assert may_end.wait(PATIENCE)
        if 1 in items:
            raise KeyboardInterrupt
        return items

    queue = cooperative(stopped)
    first = threads.submit(queue.call, 0)
    assert begun.wait(PATIENCE)
    leader, member = queue.submit(1), queue.submit(2)
    may_end.set()
    with pytest.raises(KeyboardInterrupt):
        leader.result()
    with pytest.raises(WorkerLost, match="KeyboardInterrupt"):
        member.result(PATIENCE)
    assert (first.result(PATIENCE), queue.call(3)) == (0, 3)


def test_a_policy_that_holds() -> None:
    """The leader waits while the policy holds, and a newcomer who fills the batch ends that."""
    queue = cooperative(lambda items: [items] * len(items), max_batch_size=2, policy="window:1h")
    meeting = threading.Barrier(2)

    def come(item: int) -> list[int]:
        meeting.wait(PATIENCE)
        return queue.call(item)

    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(come, range(2), timeout=PATIENCE))
    assert [sorted(items) for items in together] == [[0, 1], [0, 1]]


def test_those_who_were_answered_together_come_again_together() -> None:
    """Threads that ask again at once share batches, though each batch keeps the interpreter."""
    sizes: list[int] = []

    def busy_for_a_moment(items: list[int]) -> list[int]:
        sizes.append(len(items))
        return [sum(range(500)) + item for item in items]

    queue = cooperative(busy_for_a_moment)
    meeting = threading.Barrier(8)

    def ask(_: int) -> None:
        meeting.wait(PATIENCE)
        for each in range(200):
            queue.call(each)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(8)))
    assert sum(sizes) / len(sizes) > 2


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads that are interrupted wherever they are, as they would be without a common lock."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.usefixtures("restless")
def test_many_threads() -> None:
    """32 threads at once, with one item or several: everyone gets his own, no batch is too large.

    `adaptive-batching bench cooperative --stress` does it with 20,000 calls each.
    """
    outcome = stress(threads=32, calls=300, max_batch_size=16)
    assert outcome.wrong == 0
    assert outcome.answered == 32 * 300
    assert outcome.largest <= 16


def yields(items: list[int]) -> Iterator[int]:
    yield from items


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cooperative(asyncio.sleep), "for async ones there is @batched"),  # type: ignore[arg-type]
        (lambda: cooperative(3), "a plain function of a list, got 3"),  # type: ignore[arg-type]
        (lambda: cooperative(yields), "one that returns a list, got yields, which yields"),
        (lambda: cooperative(sorted, lock=threading.Lock()), "knows its holder"),  # type: ignore[arg-type]
        (lambda: cooperative(Doubler), "got the class Doubler: make one of it"),  # type: ignore[arg-type]
    ],
)
def test_mistakes(make: Callable[[], object], message: str) -> None:
    """They are named where they are made."""
    with pytest.raises(TypeError, match=message):
        make()
