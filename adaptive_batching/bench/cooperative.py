"""What threads that batch for one another reach, beside what threads can do at all."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median
from threading import Barrier, Lock, Thread
from time import perf_counter

from adaptive_batching.bench.harness.contest import take_turns
from adaptive_batching.bench.harness.report import Report, Row, Verdict
from adaptive_batching.cooperation import Cooperative, cooperative

_THREADS = 8
_AHEAD = 16  # calls that a thread has under way
_BATCH = 20e-6  # seconds
_REQUIRED = 150_000.0  # calls/s


@dataclass(frozen=True, slots=True)
class Rate:
    """What one contestant reached in one round."""

    calls_per_second: float
    mean_batch_size: float


@dataclass(frozen=True, slots=True)
class Stress:
    """How a stress run ended.

    Attributes:
        answered: Items that got an answer.
        wrong: Answers that were another caller's.
        largest: Items of the largest batch.
        seconds: It took.
    """

    answered: int
    wrong: int
    largest: int
    seconds: float


async def measure(*, quick: bool) -> Report:
    """Compare the ways to ask, with a handler that takes 20 µs whatever the batch."""
    calls, rounds = (160, 1) if quick else (1600, 7)
    several = 5 * calls  # fewer batches than that, and a thread would be done in its first turn
    contestants = {
        "call": partial(_batching, _one_by_one, calls),
        f"submit {_AHEAD}, then results": partial(_batching, _ahead, several),
        f"call_many of {_AHEAD}": partial(_batching, _together, several),
        "one lock, no batches": partial(_locking, calls),
        "bare threads, woken by one of them": partial(_waking, calls),
    }
    taken = await take_turns(contestants, rounds)
    rows: list[Row] = []
    rates = {}
    for way, turns in taken.items():
        rates[way] = median(turn.calls_per_second for turn in turns)
        size = median(turn.mean_batch_size for turn in turns)
        rows.append({"way": way, "calls/s": rates[way], "mean batch size": size})
    title = f"cooperative: {_THREADS} threads, a handler that keeps the interpreter for 20 µs"
    verdicts = [
        Verdict(way, rates[way], "at least", _REQUIRED, "calls/s") for way in list(contestants)[:3]
    ]
    return Report(title, rows, verdicts)


async def measure_stress(*, quick: bool) -> Report:
    """See whether every call of many threads gets its own answer."""
    calls = 200 if quick else 20_000
    end = stress(threads=32, calls=calls, max_batch_size=16)
    rate = end.answered / end.seconds
    row: Row = {"items": end.answered, "items/s": rate, "wrong": end.wrong, "largest": end.largest}
    verdicts = [
        Verdict("answers", end.answered, "at least", 32 * calls, "items"),
        Verdict("wrong answers", end.wrong, "at most", 0, "items"),
        Verdict("largest batch", end.largest, "at most", 16, "items"),
    ]
    return Report(f"cooperative: 32 threads with {calls} items each", [row], verdicts)


def stress(*, threads: int, calls: int, max_batch_size: int) -> Stress:
    """Let many threads ask for one item or three by turns, and compare all answers."""
    largest = 0
    answers = [0] * threads
    wrong = [0] * threads

    def square(items: list[tuple[int, int]]) -> list[tuple[int, int]]:
        nonlocal largest
        largest = max(largest, len(items))
        return [(thread, number * number) for thread, number in items]

    queue = cooperative(square, max_batch_size=max_batch_size)

    def ask(thread: int) -> None:
        number = 0
        while number < calls:
            count = 3 if number % 4 and number + 3 <= calls else 1
            items = [(thread, number + each) for each in range(count)]
            results = queue.call_many(items) if count > 1 else [queue.call(items[0])]
            answers[thread] += len(results)
            wrong[thread] += results != [(thread, n * n) for _, n in items]
            number += count

    seconds = _together_in([partial(ask, thread) for thread in range(threads)])
    return Stress(sum(answers), sum(wrong), largest, seconds)


# ----------------------------------------------------------------------------- the contestants


async def _batching(way: Callable[[Cooperative[int, int], int], None], calls: int) -> Rate:
    sizes: list[int] = []

    def noting(items: list[int]) -> list[int]:
        sizes.append(len(items))
        return _spin(items)

    queue = cooperative(noting, max_batch_size=_THREADS * _AHEAD)
    seconds = _together_in([partial(way, queue, calls)] * _THREADS)
    return Rate(sum(sizes) / seconds, sum(sizes) / len(sizes))


def _one_by_one(queue: Cooperative[int, int], calls: int) -> None:
    for number in range(calls):
        queue.call(number)


def _ahead(queue: Cooperative[int, int], calls: int) -> None:
    for _ in range(calls // _AHEAD):
        handles = [queue.submit(number) for number in range(_AHEAD)]
        for handle in handles:
            handle.result()


def _together(queue: Cooperative[int, int], calls: int) -> None:
    items = range(_AHEAD)
    for _ in range(calls // _AHEAD):
        queue.call_many(items)


async def _locking(calls: int) -> Rate:
    """What there would be without us: each calls the handler for itself, under one lock."""
    lock = Lock()

    def ask() -> None:
        for number in range(calls):
            with lock:
                _spin([number])

    return Rate(_THREADS * calls / _together_in([ask] * _THREADS), 1.0)


async def _waking(calls: int) -> Rate:
    """The limit: one thread wakes the others, the last of which wakes it, and nothing else."""
    bells = [_rung() for _ in range(_THREADS - 1)]
    all_awake, mutex = _rung(), Lock()
    asleep = 0

    def follow(bell: Lock) -> None:
        nonlocal asleep
        for _ in range(calls):
            bell.acquire()
            with mutex:
                asleep -= 1
                last = not asleep
            if last:
                all_awake.release()

    def lead() -> None:
        nonlocal asleep
        for _ in range(calls):
            asleep = len(bells)
            for bell in bells:
                bell.release()
            all_awake.acquire()

    seconds = _together_in([lead, *(partial(follow, bell) for bell in bells)])
    return Rate(_THREADS * calls / seconds, float(_THREADS))


def _rung() -> Lock:
    """A lock that is waited for until another thread releases it."""
    lock = Lock()
    lock.acquire()
    return lock


def _spin(items: list[int]) -> list[int]:
    until = perf_counter() + _BATCH
    while perf_counter() < until:
        pass
    return items


def _together_in(tasks: list[Callable[[], None]]) -> float:
    """Seconds that some threads take, from a common start to the end of the last."""
    start = Barrier(len(tasks) + 1)

    def run(task: Callable[[], None]) -> None:
        start.wait()
        task()

    threads = [Thread(target=run, args=(task,), daemon=True) for task in tasks]
    for thread in threads:
        thread.start()
    start.wait()
    begin = perf_counter()
    for thread in threads:
        thread.join()
    return perf_counter() - begin
