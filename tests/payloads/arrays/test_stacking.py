"""Handlers of one stacked array: rows go to the right callers, and wrong items fail alone."""

import asyncio
import pickle
from random import Random
from typing import Annotated, Any, TypedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from adaptive_batching import DType, Padded, Pipeline, Processes, Shape, Stage, Threads, batched
from adaptive_batching.configured_handler import configured
from adaptive_batching.core import Costs
from adaptive_batching.errors import BatchFunctionError, InvalidItem
from adaptive_batching.payloads.arrays.stacking import Stacking
from adaptive_batching.workers.handler.handler import build
from adaptive_batching.workers.handler.results import CallRaised, check_results

Vector = Annotated[NDArray[np.float32], Shape(3)]
Frames = Annotated[np.ndarray, Shape(None, 2), DType("float32"), Padded(axis=0, value=-1)]


class Tokens(TypedDict):
    ids: Annotated[NDArray[np.int64], Shape(None), Padded()]
    kind: Annotated[NDArray[np.int64], Shape()]


def run(handler, items):
    call, _ = build(pickle.loads(pickle.dumps(configured(handler))))
    return check_results(call(items), len(items))


async def run_awaited(handler, items):
    call, _ = build(configured(handler))
    return check_results(await call(items), len(items))


def greedy(x: NDArray[np.float32]) -> NDArray[np.float32]:
    if x.shape[1] == 4:
        raise MemoryError
    return x.sum(axis=1)


def doubled(x: NDArray[np.float32]) -> NDArray[np.float32]:
    assert type(x) is np.ndarray
    return 2 * x


def summed(x: Vector) -> NDArray[np.float32]:
    return x.sum(axis=1)


def measured(x: Frames, lengths: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    return {"sum": x.sum(axis=(1, 2)), "padding": x.shape[1] - lengths}


def told(x: Frames) -> NDArray[np.int64]:
    """Say to each item in which shape its batch ran."""
    return np.array([x.shape[:2]] * len(x), np.int64)


def read(x: Tokens, lengths: dict[str, NDArray[np.int64]]) -> NDArray[np.int64]:
    assert lengths.keys() == {"ids"}
    return x["ids"].sum(axis=1) * 10 + x["kind"]


def unnamed(x: dict[str, NDArray[np.float64]]) -> list[list[str]]:
    return [sorted(x)] * len(next(iter(x.values())))


def careful(x: NDArray[np.float64]) -> NDArray[np.float64]:
    if x.shape[1] == 2:
        raise ValueError("two is not to my liking")
    return x


vectors = st.lists(st.floats(-9, 9, width=32), max_size=3).map(lambda each: np.float32([*each]))
wrong = st.sampled_from(["text", None, [1.0], np.zeros(3), np.zeros((3, 3), np.float32)])


@given(st.lists(vectors | wrong, min_size=1, max_size=20))
def test_each_row_goes_to_its_own_caller(items):
    """Whatever shapes come together, and however many of them are no such arrays."""
    results = run(doubled, items)
    for item, result in zip(items, results, strict=True):
        if item is None or isinstance(item, str) or getattr(item, "dtype", "") == np.float64:
            assert isinstance(result, InvalidItem)
        else:
            assert np.array_equal(result, 2 * np.asarray(item))
    assert all(asyncio.run(_same_when_awaited(items, results)))


async def _same_when_awaited(items, results):
    async def awaited(x: NDArray[np.float32]) -> NDArray[np.float32]:
        return 2 * x

    again = await run_awaited(awaited, items)
    return [str(one) == str(other) for one, other in zip(again, results, strict=True)]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=9))
def test_padding_reaches_no_neighbour(lengths):
    """Each item is padded to the longest of its batch with the value, and its length is told."""
    items = [np.full((length, 2), number, np.float32) for number, length in enumerate(lengths)]
    for number, (result, length) in enumerate(zip(run(measured, items), lengths, strict=True)):
        padding = max(lengths) - length
        assert result == {"sum": 2 * (number * length - padding), "padding": padding}


class Raising:
    def __array__(self, dtype=None, copy=None):
        raise LookupError("no array")


@pytest.mark.parametrize(
    ("lengths", "longest"), [([1, 3], 4), ([5], 8), ([8, 2], 8), ([9], 9), ([3, 9], 9)]
)
def test_a_handler_sees_the_lengths_that_costs_predict(lengths, longest):
    """The next of `pad_costs`, or the longest item above them; `lengths` are the items' own."""
    costs = Costs(padded=True, pad_costs=(4, 8))
    items = [np.ones((length, 2), np.float32) for length in lengths]
    call, _ = build(pickle.loads(pickle.dumps(configured(measured, costs=costs))))
    results = check_results(call(items), len(items))
    assert [each["padding"] for each in results] == [longest - length for length in lengths]
    assert len(lengths) * longest == costs.of_batch([costs.rounded(each) for each in lengths])


def test_arrays_by_name_are_padded_to_lengths():
    """Each that is padded, and no other."""

    def shapes(x: Tokens) -> list[tuple[int, ...]]:
        return [x["ids"].shape, x["kind"].shape]

    call, _ = build(configured(shapes, costs=Costs(padded=True, pad_costs=(4, 8))))
    items = [{"ids": np.arange(length), "kind": np.array(1)} for length in (2, 5)]
    assert call(items) == [(2, 8), (2,)]


def test_costs_that_are_no_lengths():
    """Where they were written: no array is half a step longer."""
    with pytest.raises(ValueError, match=r"pad_costs: expected whole numbers.*got \[2.5\]"):
        batched(cost=len, padded=True, pad_costs=[2.5])(measured)
    batched(cost=len, padded=True, pad_costs=[2.5])(doubled)  # pads nothing


@pytest.mark.parametrize("where", [Threads(1), Processes(1)])
async def test_batches_have_the_shapes_that_were_announced(where):
    """Of sizes and lengths, with what the scheduler learned: a recompiling model sees no others."""
    shaped = batched(
        cost=len, padded=True, pad_costs=[4, 8], sizes=[1, 2, 4], workers=where,
        examples=[np.ones((3, 2), np.float32), np.ones((8, 2), np.float32)],
    )(told)  # fmt: skip
    async with shaped:
        items = [np.ones((length, 2), np.float32) for length in (1, 4, 5, 8, 2, 3, 7)]
        seen = {tuple(each) for each in await shaped.map(items)}
    assert seen <= {(size, length) for size in (1, 2, 4) for length in (4, 8)}


def test_an_item_of_another_shape_or_dtype_fails_alone():
    """Its own error stands in its place; lists, which have no dtype yet, get the declared one."""
    items = [np.ones(3, np.float32), np.ones(2, np.float32), [1, 2, 3], np.ones(3), "text", {}]
    first, short, listed, wide, text, other, raising = run(summed, [*items, Raising()])
    assert isinstance(raising, LookupError)
    assert (first, listed) == (3, 6)
    assert str(short) == "$: expected shape (3), got (2)"
    assert str(wide) == "$: expected dtype float32, got float64"
    assert str(text).startswith("$: expected elements of float32, got ")
    assert str(other) == "$: expected elements of float32, got object"
    assert all(isinstance(each, InvalidItem) for each in run(summed, items[1:2] + items[3:]))


def test_arrays_by_name():
    """They are stacked name by name; one that is missing or wrong is named to its own caller."""
    ids = np.arange(3)
    items = [{"ids": ids, "kind": 1}, {"ids": ids[:1], "kind": 2}]
    items += [{"ids": ids}, {"ids": ids, "kind": [1]}]
    one, two, missing, wrong = run(read, items)
    assert (one, two) == (31, 2)
    assert str(missing) == "$: expected ids, kind, got ids"
    assert str(wrong) == "$.kind: expected shape (), got (1)"
    assert run(unnamed, [{"a": [1.0]}, {"b": [1.0], "a": [2.0]}, {}, {1: 1, "a": 2}])[:2] == [
        ["a"],
        ["a", "b"],
    ]


def test_what_is_raised_over_one_shape_is_not_the_others_fault():
    """Their calls are made all the same; if all are in one call, it is the whole batch's."""
    two, three = np.zeros(2), np.zeros(3)
    results = run(careful, [two, three, two, "text"])
    assert [type(each) for each in results] == [CallRaised, np.ndarray, CallRaised, InvalidItem]
    assert isinstance(results[0].error, ValueError)
    with pytest.raises(ValueError, match="not to my liking"):
        run(careful, [two, two])


async def test_a_call_of_one_shape_that_raises_runs_again_in_parts():
    """As if all items of its batch were of one shape; those of the others have their answers."""
    calls = []

    @batched(max_batch_size=8, max_latency=10, idempotent=True)
    def picky(x: NDArray[np.float64]) -> NDArray[np.float64]:
        calls.append(x.shape)
        if np.isnan(x).any():
            raise ValueError("not a number")
        return x.sum(axis=1)

    good, bad, other = np.ones(2), np.array([1.0, np.nan]), np.ones(3)
    async with picky:
        items = [good, bad, other, good, other]
        results = await asyncio.gather(*map(picky, items), return_exceptions=True)
    assert [str(each) for each in results] == ["2.0", "not a number", "3.0", "2.0", "3.0"]
    assert calls.count((2, 3)) == 1


async def test_a_search_that_answers_some_shapes_pays_for_itself():
    """As where all are of one: with several bad items in each of many batches no other fails."""

    @batched(max_batch_size=32, max_latency=60, idempotent=True)
    def picky(x: NDArray[np.float64]) -> NDArray[np.float64]:
        if np.isnan(x).any():
            raise ValueError("not a number")
        return x.sum(axis=1)

    random, failed = Random(3), 0
    async with picky:
        for _ in range(20):
            bad = random.sample(range(32), 4)
            items = [np.full(1 + n % 4, np.nan if n in bad else 1.0) for n in range(32)]
            results = await asyncio.gather(*map(picky, items), return_exceptions=True)
            failed += sum(isinstance(each, Exception) for each in results)
    assert failed == 20 * 4


async def test_memory_is_a_matter_of_the_whole_batch():
    """Where one shape ran out of it, later batches are smaller, as if all were of one."""

    @batched(max_batch_size=32, max_latency=10)
    def total(x: NDArray[np.float32]) -> NDArray[np.float32]:
        if len(x) > 10:
            raise MemoryError
        return x.sum(axis=1)

    async def failed() -> int:
        items = [np.ones(3 + number % 2, np.float32) for number in range(32)]
        answers = await asyncio.gather(*map(total, items), return_exceptions=True)
        return sum(isinstance(each, MemoryError) for each in answers)

    async with total:
        assert await failed() > 0
        assert await failed() == 0


def test_a_wrong_item_is_told_beside_what_ran_out_of_memory():
    """Its own error stays its own; those that ran out of memory may run again."""
    wrong = np.array(["no number"])
    items = [np.ones(3, np.float32), wrong, np.ones(4, np.float32)]
    answered, own, short = run(greedy, items)
    assert (answered, type(own), type(short.error)) == (3, InvalidItem, MemoryError)


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        (np.zeros(3), "expected 2 results for a batch of 2, got 3"),
        (
            {"a": np.zeros(2), "b": np.zeros(3)},
            "in 'b': expected 2 results for a batch of 2, got 3",
        ),
        ({}, "expected 2 results for a batch of 2, got 0"),
        (np.float64(1), "expected a list of 2 results, got float64"),
    ],
)
def test_results_with_other_numbers_of_rows(returned, told):
    """Nobody gets another's row: the batch fails with both numbers."""

    def handler(x: NDArray[np.float64]) -> Any:
        return returned

    call, _ = build(configured(handler))
    with pytest.raises(BatchFunctionError, match=told):
        check_results(call([np.zeros(1), np.zeros(1)]), 2)


@pytest.mark.parametrize(
    ("hint", "told"),
    [
        (np.ndarray, r"handler .*f: expected what one .* DType\(\"float32\"\)\]"),
        (dict[str, np.ndarray], "expected what one item is of the arrays to stack"),
        (Annotated[np.ndarray, Shape(None, 512), DType("f4")], r"without the batch: Shape\(512\)"),
        (np.ndarray[tuple[int, int], np.dtype[np.float32]], r"as Annotated\[..., Shape\(512\)\]"),
        (Annotated[np.ndarray, Shape(3), Padded()], r"expected None for the padded axis in"),
        (
            Annotated[NDArray[np.int8], Shape(3, 4), Padded(axis=1)],
            r"as in Shape\(3, None\) beside",
        ),
        (
            Annotated[NDArray[np.int8], Shape(3, 4), Padded(5)],
            r"one of the 2 axes of Shape\(3, 4\),",
        ),
        (
            Annotated[NDArray[np.int8], Padded(5)],
            r"expected a Shape of one item .* Shape\(None, 80\)",
        ),
        (
            Annotated[NDArray[np.uint8], Shape(None), Padded(value=1000)],
            "value that uint8 can hold",
        ),
        (Annotated[NDArray[np.int64], Shape(None), Padded(value=np.nan)], "that int64 can hold"),
        (Annotated[NDArray[np.float16], Shape(None), Padded(value=1e9)], "that float16 can hold"),
        (list[Frames], "expected Padded beside the array that a handler takes for its whole batch"),
    ],
)
def test_annotations_that_say_too_little(hint, told):
    """They are refused where the handler is decorated, with the right form."""

    def f(x): ...

    f.__annotations__["x"] = hint
    with pytest.raises(TypeError, match=told):
        batched(f)


def test_lengths_of_what_is_not_padded():
    """There are none to be told."""

    def handler(x: Vector, lengths: NDArray[np.int64]) -> Any: ...

    with pytest.raises(TypeError, match=r"lengths: expected a padded array before it"):
        batched(handler)
    with pytest.raises(ValueError, match="axis: expected the number of an axis, from 0, got -1"):
        Padded(axis=-1)
    assert repr(Padded(1)) == "Padded(axis=1, value=0)"


def test_names_that_mean_nothing_yet():
    """They are told where they look like arrays; a handler of lists does not mind."""

    def arrays(x: "NDArray[np.float64, Missing]") -> Any: ...  # noqa: F821

    def other(x: "Missing") -> Any: ...  # noqa: F821

    with pytest.raises(TypeError, match=r"handler: .*arrays.* name 'Missing' is not defined"):
        batched(arrays)
    batched(other)


# ------------------------------------------------------------------------------- where it is used


class Scaled:
    """What worker processes build, with a step before the array and one after it."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def preprocess(self, text: str) -> NDArray[np.float64]:
        return np.array([float(each) for each in text.split()])

    def __call__(self, x: Annotated[NDArray[np.float64], Shape(2)]) -> NDArray[np.float64]:
        return x * self.factor

    def postprocess(self, row: NDArray[np.float64]) -> list[float]:
        return row.tolist()


async def test_in_worker_processes_with_steps():
    """The item that gets the wrong shape by its step fails alone."""
    scaled = batched(workers=Processes(1), init_args={"factor": 3.0})(Scaled)
    async with scaled:
        texts = ["1 2", "3", "x", "4 5"]
        results = await asyncio.gather(*map(scaled, texts), return_exceptions=True)
    assert (results[0], results[3]) == ([3.0, 6.0], [12.0, 15.0])
    assert [type(each) for each in results[1:3]] == [InvalidItem, ValueError]


def halves(x: NDArray[np.float32]) -> NDArray[np.float32]:
    return x / np.full(1, 2.0)  # float64


async def halves_later(x: NDArray[np.float32]) -> NDArray[np.float32]:
    return halves(x)


@pytest.mark.parametrize(
    ("handler", "where"), [(halves, Threads(1)), (halves_later, 1), (halves, Processes(1))]
)
@pytest.mark.parametrize("sizes", [[2], [2, 2], [2, 3]])
async def test_a_program_gets_the_dtype_that_the_handler_returned(handler, where, sizes):
    """An item of another dtype than is declared fails, with a Shape or not; a result does not."""
    call = batched(handler, workers=where, max_batch_size=8)
    other = [np.ones(2), np.ones(2, np.complex64), np.ones(2, np.int64)]
    async with call:
        results = await asyncio.gather(*(call(np.ones(size, np.float32)) for size in sizes))
        errors = await asyncio.gather(*map(call, other), return_exceptions=True)
    assert [(each.dtype, each.tolist()) for each in results] == [
        (np.float64, [0.5] * size) for size in sizes
    ]
    assert [str(each) for each in errors] == [
        "$: expected dtype float32, got float64",
        "$: expected numbers, got elements of complex64",
        "$: expected dtype float32, got int64",
    ]


class Model:
    """A method that is told lengths is not taken for a function of two arguments."""

    @batched
    async def measure(self, x: Frames, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        return lengths


async def test_methods_functions_and_stages():
    """A stage that takes one item gets that, whatever its annotation is."""

    def one(x: np.ndarray) -> np.ndarray:
        return x + 1

    frames = [np.zeros((length, 2), np.float32) for length in (1, 3)]
    model = Model()
    assert await asyncio.gather(*map(model.measure, frames)) == [1, 3]
    stages = [Stage(one), Stage(measured, max_batch_size=8)]
    async with Pipeline[Any, Any](stages) as pipeline:
        assert [each["sum"] + 2 * each["padding"] for each in await pipeline.map(frames)] == [2, 6]


@pytest.mark.parametrize(
    ("handler", "init_args", "told"),
    [
        (doubled, {"factor": 2}, "init_args: expected a class as handler"),
        (Scaled, {"facto": 2}, r"expected the arguments of Scaled\(factor: float\).* got {'facto'"),
        (Scaled, ["factor"], "init_args: expected a dict such as"),
    ],
)
def test_init_args_that_do_not_fit(handler, init_args, told):
    """They are refused where they are written, for a stage as well."""
    with pytest.raises(TypeError, match=told):
        batched(init_args=init_args)(handler)
    with pytest.raises(TypeError, match=told):
        Stage(handler, 8, init_args=init_args)


class Linear:
    """Takes tensors; returns one with a gradient, in a type that NumPy does not have."""

    def __call__(self, x: "Annotated[torch.Tensor, Shape(None), Padded()]", lengths: Any) -> Any:
        weight = torch.ones(1, dtype=torch.bfloat16, requires_grad=True)
        return {"sum": (x * weight).sum(dim=1), "length": lengths}


async def test_tensors():
    """They are made in the worker, over the stacked array; callers have arrays on both ends."""
    global torch  # noqa: PLW0603  it is not there in most environments
    torch = pytest.importorskip("torch")
    linear = batched(workers=Threads(1))(Linear)
    async with linear:
        items = [np.arange(length) for length in (2, 4)]
        assert await linear.map(items) == [{"sum": 1, "length": 2}, {"sum": 6, "length": 4}]
    with pytest.raises(TypeError, match=r"Annotated\[torch.Tensor, Shape\(512\)"):
        Stacking.of(torch.Tensor)
