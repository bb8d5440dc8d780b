"""`@batched` told as stories: functions, methods and classes, as they are in programs."""

import asyncio
import copy
import gc
import os
import subprocess
import sys
import textwrap
import threading
import traceback
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from functools import partial
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adaptive_batching import Pipeline, Recorder, Service, Stage, cooperative
from adaptive_batching.batched_function import Batched
from adaptive_batching.batching import batched
from adaptive_batching.core import JobOutcome
from adaptive_batching.errors import (
    BatchFunctionError,
    DeadlineExceeded,
    Draining,
    HandlerNotFound,
)
from adaptive_batching.workers.elsewhere import Processes
from adaptive_batching.workers.placement import Tasks, Threads

# ------------------------------------------------------------------------------- what it batches


async def test_an_async_function() -> None:
    """Calls that come together run together, on the loop."""
    batches: list[list[int]] = []

    @batched()
    async def double(items: list[int]) -> list[int]:
        """Double each."""
        batches.append(items)
        return [2 * item for item in items]

    async with double:
        assert await asyncio.gather(*map(double, range(5))) == [0, 2, 4, 6, 8]
    assert batches == [[0, 1, 2, 3, 4]]
    assert (double.__name__, double.__doc__) == ("double", "Double each.")
    assert "batched" in repr(double)


async def test_a_function() -> None:
    """It runs in a thread, beside the loop."""

    @batched(workers=2)
    def where(items: list[int]) -> list[int]:
        return [threading.get_ident()] * len(items)

    async with where:
        assert await where(1) != threading.get_ident()


class Scaled:
    """A model of a user's class, with a batched method."""

    def __init__(self, factor: int) -> None:
        self.factor = factor
        self.batches: list[list[int]] = []

    @batched()
    async def scale(self, items: list[int]) -> list[int]:
        """Scale each."""
        self.batches.append(items)
        return [self.factor * item for item in items]


async def test_a_method() -> None:
    """Each instance batches for itself, with its own state."""
    twice, thrice = Scaled(2), Scaled(3)
    calls = [model.scale(item) for item in (1, 2) for model in (twice, thrice)]
    assert await asyncio.gather(*calls) == [2, 3, 4, 6]
    assert (twice.batches, thrice.batches) == ([[1, 2]], [[1, 2]])
    assert twice.scale is twice.scale
    assert twice.scale is not thrice.scale
    assert Scaled.scale.__doc__ == "Scale each."
    await twice.scale.aclose()
    assert await thrice.scale(1) == 3
    await thrice.scale.aclose()


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
async def test_copies_share_nothing(duplicate: Any) -> None:
    """A copy of an instance batches for itself, even when the original was in use."""
    original = Scaled(2)
    await original.scale(1)
    twin = duplicate(original)
    twin.factor = 3
    assert await asyncio.gather(original.scale(1), twin.scale(1)) == [2, 3]
    assert twin.scale is not original.scale
    await original.scale.aclose()
    await twin.scale.aclose()


async def test_a_method_can_not_be_overwritten() -> None:
    """Setting it on an instance would go unnoticed; it is an error that names it."""
    with pytest.raises(AttributeError, match=r"Scaled\.scale can't be set on an instance"):
        Scaled(1).scale = None  # type: ignore[assignment]


async def test_a_method_of_a_class_with_slots() -> None:
    """There is no place for its queue: the message says so."""

    class Slotted:
        __slots__ = ()

        @batched()
        async def scale(self, items: list[int]) -> list[int]:
            return items

    with pytest.raises(TypeError, match="Slotted has no __dict__"):
        _ = Slotted().scale


async def test_an_object_that_is_called() -> None:
    """A model that was built already, in a thread."""

    class Adder:
        def __init__(self, term: int) -> None:
            self.term = term

        def __call__(self, items: list[int]) -> list[int]:
            return [item + self.term for item in items]

    add = batched()(Adder(5))
    async with add:
        assert await add(1) == 6


async def test_a_partial_function() -> None:
    """What is bound already does not count as an argument."""

    async def scale(factor: int, items: list[int]) -> list[int]:
        return [factor * item for item in items]

    triple = batched()(partial(scale, 3))
    async with triple:
        assert await triple(2) == 6


async def test_a_function_with_defaults() -> None:
    """Only what has to be given counts: (items, temperature=1.0) takes items."""

    @batched()
    async def scale(items: list[int], factor: int = 4) -> list[int]:
        return [factor * item for item in items]

    async with scale:
        assert await scale(2) == 8


async def short(items: list[int]) -> list[int]:
    return items[:-1]


class Shortens:
    def preprocess(self, item: int) -> int:
        return item

    def __call__(self, items: list[int]) -> list[int]:
        return items[:-1]


@pytest.mark.parametrize(("handler", "where"), [(short, Tasks(1)), (Shortens, Threads(1))])
async def test_another_number_of_results(handler: Any, where: Any) -> None:
    """The error names the handler, the number expected and the number returned."""
    message = f"^{handler.__name__}: expected 1 results for a batch of 1, got 0$"
    async with batched(max_batch_size=1, workers=where)(handler) as function:
        with pytest.raises(BatchFunctionError, match=message):
            await function(1)


async def test_an_array_is_shared_out_by_rows() -> None:
    """A model may return one array for its batch."""

    @batched()
    async def rows(items: list[int]) -> Any:
        return np.array([[item, item] for item in items])

    async with rows:
        answers = await asyncio.gather(rows(1), rows(2))
    assert [answer.tolist() for answer in answers] == [[1, 1], [2, 2]]


@batched(workers=2)
class Where:
    """Built once in each worker process."""

    def __init__(self) -> None:
        self.built_in = os.getpid()

    def __call__(self, items: list[int]) -> list[tuple[int, int, list[int]]]:
        cpus = sorted(os.sched_getaffinity(0))
        return [(self.built_in, os.getpid(), cpus)] * len(items)


@batched(cpus=[max(os.sched_getaffinity(0))])
class Pinned:
    """On the last core of this machine."""

    def __call__(self, items: list[int]) -> list[list[int]]:
        return [sorted(os.sched_getaffinity(0))] * len(items)


async def test_a_class_in_processes() -> None:
    """It is built where it runs, in another process than ours."""
    async with Where:
        assert Where.stats().workers == 2
        built_in, ran_in, _ = await Where(1)
    assert built_in == ran_in != os.getpid()


async def test_a_class_on_the_cores_that_were_named() -> None:
    """`cpus` pins each process before its handler is built."""
    async with Pinned:
        assert await Pinned(1) == [max(os.sched_getaffinity(0))]


async def test_a_class_with_names_like_ours() -> None:
    """What a handler calls `map`, `stats` or `start` is its own affair."""

    @batched(workers=Threads())
    class Model:
        stats = map = start = None

        def __call__(self, items: list[int]) -> list[int]:
            return [2 * item for item in items]

    async with Model:
        assert await Model.map([1, 2]) == [2, 4]
        assert Model.stats().requests[JobOutcome.DONE] == 2


async def test_a_class_in_threads() -> None:
    """`workers=Threads(2)` builds it once in each thread of this process."""
    built: list[int] = []

    @batched(workers=Threads(2))
    class Here:
        def __init__(self) -> None:
            built.append(os.getpid())

        def __call__(self, items: list[int]) -> list[int]:
            return items

    async with Here:
        assert await Here(1) == 1
    assert built == [os.getpid()] * 2


# -------------------------------------------------------------------------------------------- map


async def test_map_keeps_the_order() -> None:
    """Results come in the order of the items, whatever order the batches ended in."""

    @batched(workers=3, max_batch_size=4)
    async def negative(items: list[int]) -> list[int]:
        for _ in range(items[0] % 7):
            await asyncio.sleep(0)
        return [-item for item in items]

    async with negative:
        assert await negative.map(range(200)) == [-item for item in range(200)]
        assert await negative.map([]) == []
        assert await negative.map(iter([3])) == [-3]


async def test_map_is_lazy() -> None:
    """Of a long iterable only so many items are taken as fill every worker's next batch."""
    taken = 0
    most_ahead = 0
    answered = 0

    def endless() -> Iterator[int]:
        nonlocal taken, most_ahead
        for item in range(1000):
            taken += 1
            most_ahead = max(most_ahead, taken - answered)
            yield item

    @batched(workers=2, max_batch_size=5)
    async def handler(items: list[int]) -> list[int]:
        nonlocal answered
        await asyncio.sleep(0)
        answered += len(items)
        return items

    async with handler:
        assert len(await handler.map(endless())) == 1000
    assert most_ahead <= (2 + 1) * 5
    assert handler.stats().mean_batch_size > 4


async def test_the_first_error_ends_map() -> None:
    """It reaches the caller; what is under way is cancelled, the iterable is left alone."""
    items = iter(range(1000))

    @batched(max_batch_size=4)
    async def picky(batch: list[int]) -> list[Any]:
        await asyncio.sleep(0)
        return [ValueError("six") if item == 6 else item for item in batch]

    async with picky:
        with pytest.raises(ValueError, match="six"):
            await picky.map(items)
        assert next(items) < 30
        await asyncio.sleep(0)
        assert picky.stats().queued == 0
        assert picky.stats().requests[JobOutcome.FAILED] == 1


async def test_map_of_an_iterable_that_fails() -> None:
    """Its error reaches the caller, too."""

    def broken() -> Iterator[int]:
        yield 1
        raise LookupError("no more")

    @batched()
    async def same(items: list[int]) -> list[int]:
        return items

    async with same:
        with pytest.raises(LookupError, match="no more"):
            await same.map(broken())


# -------------------------------------------------------------------------------------- life cycle


async def test_closing_answers_who_waits() -> None:
    """Leaving `async with` drains; a call afterwards is refused, and opening again works."""

    @batched(policy="window:1h")
    async def same(items: list[int]) -> list[int]:
        return items

    for _ in range(2):
        async with same:
            waiting = [asyncio.ensure_future(same(item)) for item in range(3)]
            await asyncio.sleep(0)
        assert await asyncio.gather(*waiting) == [0, 1, 2]
        with pytest.raises(Draining):
            await same(4)
        await same.aclose()


PROGRAM = """
import asyncio
from adaptive_batching.batching import batched

@batched()
async def coroutine(items):
    await asyncio.sleep(0.001)
    return [2 * item for item in items]

@batched()
def function(items):
    return [2 * item for item in items]

@batched()
class Process:
    def __call__(self, items):
        return [2 * item for item in items]

async def main():
    asyncio.get_running_loop().slow_callback_duration = 60  # a busy machine is no fault of ours
    assert await asyncio.gather(*map({handler}, range(5))) == [0, 2, 4, 6, 8]

if __name__ == "__main__":
    for _ in range({times}):
        asyncio.run(main())
    print("done")
"""


@pytest.mark.parametrize(
    ("handler", "times"),
    [
        ("coroutine", 2),
        ("function", 2),
        ("Process", 2),
    ],
)
def test_a_program_that_never_closes(handler: str, times: int, tmp_path: Path) -> None:
    """It ends without a word: no warnings, no hang, no process left; asyncio.run works twice."""
    script = tmp_path / "program.py"
    script.write_text(PROGRAM.replace("{handler}", handler).replace("{times}", str(times)))
    ended = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", str(script)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.stdout, ended.stderr, ended.returncode) == ("done\n", "", 0)


# ---------------------------------------------------------------------------------- bad arguments


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"max_batch_size": 0}, "max_batch_size: expected at least 1"),
        ({"max_latency": 0}, "max_latency: expected a positive"),
        ({"max_latency": -1.0}, "max_latency: expected a positive"),
        ({"max_latency": float("nan")}, "max_latency: expected a positive"),
        ({"max_queue": 0}, "max_queue: expected at least 1"),
        ({"max_batch_size": True}, "max_batch_size: expected at least 1 item, .* got True"),
        ({"max_latency": True}, "max_latency: expected a positive number of seconds, .* got True"),
        ({"workers": 0}, "workers: expected a count of at least 1, got 0"),
        ({"workers": True}, "workers: expected a count of at least 1, got True"),
        ({"workers": -3}, "workers: expected a count of at least 1, got -3"),
        ({"policy": "eager"}, "policy: expected one of cork, greedy"),
        ({"policy": "window"}, "policy: expected one of cork, greedy"),
        ({"policy": "window:2"}, "expected a duration with a unit"),
        ({"cpus": [0]}, "only worker processes are pinned"),
        ({"cpus": [0], "workers": Threads(1)}, "only worker processes are pinned"),
    ],
)
def test_bad_arguments_are_told_where_they_are_written(
    arguments: dict[str, Any], complaint: str
) -> None:
    """A ValueError at decoration, with expected and got."""
    with pytest.raises(ValueError, match=complaint):

        @batched(**arguments)
        async def handler(items: list[int]) -> list[int]:
            return items


def nothing() -> None:
    """Take no items."""


async def too_many(self: object, items: list[int], extra: int) -> list[int]:
    return items


def takes_one(item: int) -> list[int]:
    return [item]


def takes_a_dict(items: dict[str, int]) -> list[int]:
    return list(items.values())


def returns_a_dict(items: list[int]) -> dict[str, list[int]]:
    return {"results": items}


class Uncallable:
    """A class whose instances are no handlers."""


def yields(items: list[int]) -> Iterator[int]:
    yield from items


class NeedsMore:
    """A class whose instances can't be called with items alone."""

    def __call__(self, items: list[int], *, scale: int) -> list[int]:
        return [scale * item for item in items]


class Yields:
    """A class whose instances yield their results."""

    async def __call__(self, items: list[int]) -> AsyncIterator[int]:
        for item in items:
            yield item


@pytest.mark.parametrize(
    ("handler", "complaint"),
    [
        (takes_one, r"takes_one to take a list of items, such as list\[int\], got .* int"),
        (takes_a_dict, r"takes_a_dict to take a list of items.*got the annotation dict"),
        (
            returns_a_dict,
            r"to return a list with one result for each item, such as .*, got .*dict\[str",
        ),
        (Uncallable, r"expected Uncallable to define __call__\(self, items\), got a class without"),
        (yields, "expected one that returns a list, got yields, which yields"),
        (Yields, r"expected one that returns a list, got Yields.__call__, which yields"),
        (3, "expected a function, a method or a class as handler, got 3"),
        (None, "expected a function, a method or a class as handler, got None"),
        (NeedsMore, r"got NeedsMore.__call__\(self, items: .*, \*, scale: int\)"),
        (too_many, r"expected a handler of \(items\), or of \(self, items\) in a class"),
        (lambda x, temperature: x, r"expected a handler of \(items\).*belongs into the item"),
        (nothing, "expected nothing to return a list with one result for each item"),
    ],
)
def test_what_is_no_handler(handler: Any, complaint: str) -> None:
    """A TypeError at decoration that says what was expected."""
    with pytest.raises(TypeError, match=complaint):
        batched()(handler)


def test_a_name_in_an_annotation_that_means_nothing_yet() -> None:
    """It may be defined below the handler, or only for type checkers."""

    @batched
    def later(items: "list[Later]") -> "list[Later]":  # type: ignore[name-defined]  # noqa: F821
        return items

    assert later.__name__ == "later"


async def test_without_parentheses() -> None:
    """`@batched` alone is `@batched()`; a call that is never awaited has the function's name."""

    @batched
    async def double(items: list[int]) -> list[int]:
        return [2 * item for item in items]

    async with double:
        call = double(2)
        assert call.__qualname__ == double.__qualname__
        assert await call == 4


def test_what_is_said_of_limits() -> None:
    """Each message names the argument, what was expected and what it got."""
    with pytest.raises(TypeError, match=r"expected a handler, or keywords.*got 64"):
        batched(64)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match=r"max_batch_size: .* as a whole number, got 6.4"):
        batched(max_batch_size=6.4)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="examples: expected a list of items, got 5"):
        batched(examples=5)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("observers", "message"),
    [
        ([3], r"expected objects with batch_ended\(\), got 3"),
        ([Recorder], r"expected objects with batch_ended\(\), got <class .*Recorder"),
        (None, "expected a list of observers, got None"),
    ],
)
def test_what_is_said_of_observers(observers: Any, message: str) -> None:
    """A class is none, nor is one that is not in a list."""
    with pytest.raises(TypeError, match=f"observers: {message}"):

        @batched(observers=observers)
        async def handler(items: list[int]) -> list[int]:
            return items


def test_a_batched_classmethod() -> None:
    """There is no instance to batch for, and the call says what to do instead."""

    class Model:
        @classmethod
        @batched
        def predict(cls, items: list[int]) -> list[int]:
            return items

    for call in (lambda: Model.predict(1), lambda: Model.__dict__["predict"].__func__(1)):
        with pytest.raises(TypeError, match=r"Model\.predict is a batched method.*on an instance"):
            call()


@pytest.mark.parametrize("workers", [Threads(1), Processes(1)])
def test_the_wrong_place_for_an_async_function(workers: Any) -> None:
    """An async function needs no threads: told at decoration. A local one has no processes."""

    async def handler(items: list[int]) -> list[int]:
        return items

    with pytest.raises((TypeError, HandlerNotFound), match=r"async|top level of a module"):
        batched(workers=workers)(handler)


def test_a_function_does_not_run_on_the_loop() -> None:
    """It would block it: `Tasks` wants an async handler."""

    def handler(items: list[int]) -> list[int]:
        return items

    with pytest.raises(TypeError, match="expected an async handler"):
        batched(workers=Tasks(1))(handler)


def test_a_class_that_processes_can_not_import() -> None:
    """A local class is told at decoration, with what to do."""

    class Local:
        def __call__(self, items: list[int]) -> list[int]:
            return items

    with pytest.raises(HandlerNotFound, match="top level of a module"):
        batched()(Local)


@pytest.mark.parametrize(
    "arguments",
    [
        {"max_batch_size": "8"},
        {"workers": "2"},
        {"workers": None},
        {"workers": 2.0},
    ],
)
def test_arguments_of_the_wrong_type(arguments: dict[str, Any]) -> None:
    """A TypeError or ValueError at decoration, not at the first call."""
    with pytest.raises((TypeError, ValueError)):

        @batched(**arguments)
        async def handler(items: list[int]) -> list[int]:
            return items


def identity(items: list[int]) -> list[int]:
    return items


@pytest.mark.parametrize(
    "face",
    [
        lambda **flags: batched(**flags)(identity),
        lambda **flags: Stage(identity, max_batch_size=8, **flags),
        lambda **flags: Service().endpoint("/", max_batch_size=8, max_latency=1, **flags),
    ],
)
def test_a_flag_that_is_a_text(face: Any) -> None:
    """It would count as True, whatever it says, and what is not idempotent would run twice."""
    with pytest.raises(TypeError, match="idempotent: expected True or False, got 'no'"):
        face(idempotent="no")


async def test_the_latency_of_a_call() -> None:
    """A duration in any form, in a program, a pipeline and a service; others are named."""

    def same(items: list[int]) -> list[int]:
        return items

    function: Any = batched()(same)
    pipeline: Any = Pipeline([Stage(same)])
    service = Service()
    service.endpoint("/same")(same)
    async with function, pipeline, service.running_workers():
        for call in (function, pipeline, service["/same"]):
            assert await call(1, max_latency="10s") == 1
            assert await call(1, max_latency=timedelta(seconds=10)) == 1
            with pytest.raises(ValueError, match="max_latency: expected a duration with a unit"):
                await call(1, max_latency="1")
            for odd in (0, -1.0, nan, "0ms", timedelta(0), [1]):
                with pytest.raises(ValueError, match="max_latency: expected a positive number"):
                    await call(1, max_latency=odd)


async def test_a_call_gets_no_more_time_than_is_promised() -> None:
    """The smaller of the two holds: in a program, from a thread, in a pipeline and a service."""
    answered = asyncio.Event()

    async def slow(items: list[int]) -> list[int]:
        await answered.wait()
        return items

    function: Any = batched(max_latency=0.03)(slow)
    pipeline: Any = Pipeline([Stage(slow)], max_latency=0.03)
    service = Service()
    service.endpoint("/slow", max_latency=0.03)(slow)
    async with function, pipeline, service.running_workers():
        calls = [call(1, max_latency="1min") for call in (function, pipeline, service["/slow"])]
        calls += [asyncio.to_thread(function.call_from_thread, 1, max_latency=60.0)]
        calls += [pipeline.call_all([1], max_latency=60.0)]
        ended = asyncio.gather(*calls, return_exceptions=True)
        done, _ = await asyncio.wait([ended], timeout=10.0)
        answered.set()
        assert done
        *ends, [of_many] = await ended
        assert {type(end) for end in [*ends, of_many]} == {DeadlineExceeded}


async def test_durations_as_texts_and_timedeltas() -> None:
    """Wherever an argument is a duration; what is kept of it is seconds."""
    handed_over = batched(max_latency="50ms", workers=Processes(timeout="2s", start_timeout="1min"))
    async with handed_over(itself) as function:
        assert await function(1) == 1
        await function.aclose(timedelta(seconds=2))
    assert Pipeline([Stage(itself)], max_latency="2.5s").max_latency == 2.5
    service = Service(body_timeout=timedelta(seconds=3), drain_timeout="4s")
    service.endpoint("/", max_latency="100ms")(itself)
    described = service.description
    assert (described.body_timeout, described.drain_timeout) == (3.0, 4.0)
    assert [endpoint.limits.max_latency for endpoint in service] == [0.1]  # type: ignore[union-attr]
    together = cooperative(itself, max_latency=timedelta(seconds=1))
    assert together.submit(1).result(timeout="10s") == 1
    with pytest.raises(ValueError, match="timeout: expected more than 0 s"):
        Processes(timeout="0s")
    with pytest.raises(ValueError, match="max_latency: expected a positive number"):
        batched(max_latency=timedelta(0))


def itself(items: list[int]) -> list[int]:
    """Returns what it gets."""
    return items


def test_the_parentheses_are_not_optional() -> None:
    """`@batched` without them is told at decoration, not at the first call."""
    with pytest.raises(TypeError):
        batched(nothing)  # type: ignore[call-arg]


def test_a_batched_function_is_what_it_says() -> None:
    """It can be recognised, and its handler found behind `__wrapped__`."""

    @batched()
    async def same(items: list[int]) -> list[int]:
        return items

    assert isinstance(same, Batched)
    assert asyncio.iscoroutinefunction(same.__wrapped__)  # type: ignore[attr-defined]
    assert textwrap.dedent(repr(same)).startswith("<batched test_a_batched_function")


# --------------------------------------------------------------------------- tracebacks, and ends


def frames_of(error: BaseException) -> list[str]:
    """The files of the frames of a traceback, outermost first."""
    return [Path(frame.filename).name for frame in traceback.extract_tb(error.__traceback__)]


@pytest.mark.parametrize("workers", [Threads(1), Processes(1)])
async def test_a_traceback_leads_from_the_call_to_the_handler(workers: Any) -> None:
    """One frame of ours stands between them; a process's own traceback is a note."""
    async with batched(workers=workers)(divide) as divided:
        with pytest.raises(ZeroDivisionError) as raised:
            await divided(0)
    here = Path(__file__).name
    inner = [here] if isinstance(workers, Threads) else []
    assert frames_of(raised.value) == [here, "dispatcher.py", *inner]


def divide(items: list[int]) -> list[float]:
    """Fails for zero."""
    return [1 / items[0]] * len(items)


@pytest.mark.parametrize("turns", range(6))
def test_no_batch_outlives_its_loop(turns: int, caplog: pytest.LogCaptureFixture) -> None:
    """`asyncio.run` ends whatever batches do: wait, leave or run."""

    @batched(workers=2, max_batch_size=1)
    async def slowly(items: list[int]) -> list[int]:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
        return items

    async def leaves_soon() -> None:
        waiting = [asyncio.create_task(slowly(item)) for item in range(8)]
        for _ in range(turns):
            await asyncio.sleep(0)
        assert not all(each.done() for each in waiting)

    asyncio.run(leaves_soon())
    gc.collect()
    assert caplog.text == ""


def test_a_batch_cancelled_before_its_first_step_gives_its_worker_back() -> None:
    """`asyncio.run` cancels it with its callers, of which one asks again."""
    answers = []

    @batched()
    async def same(items: list[int]) -> list[int]:
        return items

    async def insistent(item: int) -> None:
        try:
            while True:
                await same(item)
        finally:
            answers.append(await same(item, max_latency=5.0))

    async def leaves_soon(turns: int) -> None:
        await same.start()
        waiting = asyncio.create_task(insistent(turns))
        for _ in range(turns):
            await asyncio.sleep(0)
        assert not waiting.done()

    for turns in range(1, 8):
        asyncio.run(leaves_soon(turns))
    assert answers == list(range(1, 8))


# ------------------------------------------------------------------- words that it does not have


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (
            lambda: batched(batch_size=3),
            r"batched\(\) .* 'batch_size': did you mean max_b",
        ),
        (lambda: batched(max_latency_ms=3), "did you mean max_latency?"),
        (
            lambda: batched(max_wait_ms=3),
            "'max_wait_ms': expected one of handler, max_bat",
        ),
        (lambda: Stage(itself, batch_size=3), r"Stage\(\) .* did you mean max_batch_size"),
        (lambda: Pipeline([], latency=3), r"Pipeline\(\) .* did you mean max_latency"),
        (lambda: cooperative(itself, batch_size=3), "did you mean max_batch_size"),
        (lambda: Service(drain=3), r"Service\(\) .* 'drain': expected one of name, "),
        (lambda: Service().endpoint("/", batch_size=3), r"Service.endpoint\(\) .* max_batch_size"),
        (lambda: Processes(2, cpu=[1]), r"Processes\(\) .* did you mean cpus"),
    ],
)
def test_a_wrong_keyword(wrong: Any, told: str) -> None:
    """It is told with the nearest one, or with all that there are."""
    with pytest.raises(TypeError, match=told):
        wrong()


def test_with_instead_of_async_with() -> None:
    """It is told what to write."""
    function: Any = batched(itself)
    with pytest.raises(TypeError, match="itself: expected `async with`, got `with`"), function:
        pass


async def test_what_it_prints() -> None:
    """Its name, and how many wait and run."""
    plain: Any = batched(workers=2)(itself)
    assert repr(plain) == "<batched itself queued=0 running=0/0>"
    async with plain:
        assert repr(plain) == "<batched itself queued=0 running=0/2>"
