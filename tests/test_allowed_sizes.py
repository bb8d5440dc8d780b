"""`sizes=` told as stories: a handler that takes a few sizes of batches never sees another one."""

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import numpy as np
import pytest
from numpy.typing import NDArray

from adaptive_batching import Pipeline, Processes, Service, Stage, batched, cooperative
from adaptive_batching.errors import BatchFunctionError, JobTooLarge
from adaptive_batching.payloads.arrays.marks import DType, Shape
from tests.workers import sized

SIZES = (1, 2, 4, 8)
Row = Annotated[np.ndarray, Shape(3), DType("float64")]
Ragged = Annotated[np.ndarray, DType("float64")]


# ------------------------------------------------------------------------------ what fills batches


async def test_a_batch_is_filled_up_with_its_last_item() -> None:
    """Three calls run as four, and each gets its own result."""

    @batched(sizes=SIZES)
    async def whole(items: list[str]) -> list[str]:
        return [f"{item} of {''.join(items)}" for item in items]

    async with whole:
        answers = await asyncio.gather(*map(whole, "abc"))
    assert answers == ["a of abcc", "b of abcc", "c of abcc"]


async def test_a_batch_is_filled_up_with_what_a_function_says() -> None:
    """It is told the last item, once for each batch; a batch of an allowed size has no pads."""
    told: list[int] = []

    def nought(last: int) -> int:
        told.append(last)
        return 0

    @batched(sizes=SIZES, pad=nought)
    def totals(items: list[int]) -> list[int]:
        return [sum(items)] * len(items)

    async with totals:
        assert await asyncio.gather(*map(totals, (1, 2, 3, 4, 5))) == [15] * 5
        assert await asyncio.gather(*map(totals, (1, 2))) == [3, 3]
    assert told == [5]


@pytest.mark.parametrize(
    ("order", "runs"),
    [((1, 10, 90), [[90, 10, 1, 1]]), ((10, 90, 1), [[90, 10, 1, 1]])],
)
async def test_a_batch_whose_costs_add_up_is_filled_up_with_its_cheapest_item(
    order: Sequence[int], runs: list[list[int]]
) -> None:
    """So its pads never take it beyond what a batch may cost, and each call gets its own result."""
    seen: list[list[int]] = []

    @batched(sizes=[1, 4], cost=len, max_batch_cost=150)
    async def embed(texts: list[str]) -> list[int]:
        seen.append([*map(len, texts)])
        return [*map(len, texts)]

    async with embed:
        assert tuple(await asyncio.gather(*(embed("x" * n) for n in order))) == order
    assert seen == runs


async def test_arrays_of_several_shapes_are_not_filled_up_beyond_what_a_batch_may_cost() -> None:
    """Two dear rows fill no call of four, where a batch of four has two dear and two cheap ones."""
    seen: list[int] = []

    @batched(sizes=[1, 4], cost=len, max_batch_cost=120)
    async def totals(rows: NDArray[np.float32]) -> NDArray[np.float32]:
        seen.append(rows.size)
        return rows.sum(axis=1)

    lengths = [40, 10, 40, 10]
    async with totals:
        rows = [np.ones(length, np.float32) for length in lengths]
        assert await asyncio.gather(*map(totals, rows)) == lengths
    assert sorted(seen) == [10, 10, 40, 40]


async def test_an_item_that_is_too_dear_with_its_pads() -> None:
    """The message says what the item costs, and as how many items it runs."""

    @batched(sizes=[4, 8], cost=len, max_batch_cost=11)
    async def embed(texts: list[str]) -> list[int]:
        return [*map(len, texts)]

    async with embed:
        with pytest.raises(JobTooLarge, match="got 3, which runs as 4 items: 12"):
            await embed("abc")


async def test_pads_are_not_preprocessed() -> None:
    """What each item goes through by itself it goes through once, and a bad item leaves no pad."""
    handler = batched(sizes=SIZES)(sized.Seen)
    async with handler:
        first = await asyncio.gather(*map(handler, "abc"))
        assert first == [("A", 4, 3), ("B", 4, 3), ("C", 4, 3)]
        *good, bad = await asyncio.gather(*map(handler, ["a", "b", "bad"]), return_exceptions=True)
        assert good == [("A", 2, 6), ("B", 2, 6)]
        assert isinstance(bad, ValueError)


async def test_a_function_that_fills_up_comes_along_to_processes() -> None:
    """The process imports it; the pads never cross."""
    handler = batched(sizes=[1, 4], pad=sized.exclaim, workers=Processes(1))(sized.count)
    async with handler:
        assert await asyncio.gather(*map(handler, "ab")) == [("a", "b", "!", "!")] * 2


# -------------------------------------------------------------------------------- stacked arrays


@pytest.mark.parametrize("workers", [1, Processes(1)])
async def test_stacked_arrays(workers: Any) -> None:
    """The array has as many rows as the model takes."""
    handler = batched(sizes=SIZES, workers=workers)(sized.rows)
    async with handler:
        answers = await asyncio.gather(*(handler(np.full(3, float(n))) for n in range(5)))
    np.testing.assert_array_equal(answers, [[3 * n, 8] for n in range(5)])


async def test_stacked_arrays_are_filled_up_with_noughts() -> None:
    """`np.zeros_like` makes a pad of the last item's own shape."""

    @batched(sizes=[4], pad=np.zeros_like)
    async def total(x: Row) -> np.ndarray:
        return np.repeat(x.sum(), len(x))

    async with total:
        assert await asyncio.gather(*(total(np.ones(3)) for _ in range(3))) == [9.0] * 3


@pytest.mark.parametrize(
    ("hint", "item", "message"),
    [
        (Row, np.ones(3), r"^pad: expected shape \(3\), got \(5\) at \$ of what it returned"),
        (dict[str, Row], {"a": np.ones(3)}, r"^pad: expected a dict of arrays, got ndarray at \$"),
        (Ragged, np.ones(3), r"^pad: expected a pad of the last item's shape.* got array\(\[0"),
    ],
)
async def test_a_pad_that_does_not_stack(hint: Any, item: Any, message: str) -> None:
    """It is the mistake of the function that made it, and of no caller's item."""

    def total(x: hint) -> np.ndarray:
        return np.ones(4)

    handler: Any = batched(sizes=[4], pad=lambda _: np.zeros(5))(total)
    async with handler:
        answers = await asyncio.gather(handler(item), handler(item), return_exceptions=True)
    for answer in answers:
        assert isinstance(answer, BatchFunctionError)
        assert re.search(message, str(answer))


async def test_arrays_of_unlike_lengths_and_by_name() -> None:
    """Padded arrays and dicts of arrays have pads as other items have."""
    waves, named = batched(sizes=SIZES)(sized.waves), batched(sizes=SIZES)(sized.named)
    async with waves, named:
        answers = await asyncio.gather(*(waves(np.ones(n)) for n in (1, 5, 2)))
        np.testing.assert_array_equal(answers, [[1, 4, 5], [5, 4, 5], [2, 4, 5]])
        each = {"a": np.ones(3), "b": np.zeros(3)}
        assert await asyncio.gather(*map(named, [each] * 3)) == [{"a": 403.0, "b": 400.0}] * 3


async def test_arrays_of_each_layout_are_filled_up_by_themselves() -> None:
    """The handler is called once for each layout, with a size that it takes."""
    shapes: list[tuple[int, ...]] = []

    @batched(sizes=SIZES)
    async def doubled(x: Ragged) -> np.ndarray:
        shapes.append(x.shape)
        return 2 * x

    lengths = (2, 3, 2, 3, 2)
    async with doubled:
        *answers, bad = await asyncio.gather(
            *(doubled(np.ones(length)) for length in lengths),
            doubled("text"),  # type: ignore[arg-type]  # that is what fails
            return_exceptions=True,
        )
    assert shapes == [(4, 2), (2, 3)]
    assert [len(answer) for answer in answers] == list(lengths)  # type: ignore[arg-type]
    assert isinstance(bad, Exception)


async def test_tensors() -> None:
    """They are stacked with their pads, and cut like arrays."""
    torch = pytest.importorskip("torch")

    @batched(sizes=SIZES)
    def halved(x: Annotated[torch.Tensor, Shape(2), DType("float32")]) -> Any:
        return torch.cat([x / 2, torch.full((len(x), 1), len(x))], dim=1)

    async with halved:
        answers = await asyncio.gather(*(halved(np.ones(2, np.float32)) for _ in range(3)))
    np.testing.assert_array_equal(answers, [[0.5, 0.5, 4]] * 3)


# --------------------------------------------------------------------------------- other drivers


def test_threads_that_cooperate() -> None:
    """Items that one thread brings together stay together, and are filled up together."""
    queue = cooperative(sized.count, sizes=SIZES)
    assert queue.call_many(["a", "b", "c"]) == [("a", "b", "c", "c")] * 3
    assert queue.call("a") == ("a",)


@pytest.mark.parametrize("place", [0, 2, 4])
def test_several_items_of_a_call_are_filled_up_with_the_cheapest(place: int) -> None:
    """Wherever the costly one stands, and each has its own result in its place."""
    batches: list[list[int]] = []

    def tenfold(numbers: list[int]) -> list[int]:
        batches.append(numbers)
        return [10 * number for number in numbers]

    queue = cooperative(tenfold, sizes=[1, 16], cost=float, max_batch_cost=64)
    asked = [1, 2, 3, 4]
    asked.insert(place, 9)
    assert queue.call_many(asked) == [10 * number for number in asked]
    [batch] = batches
    assert sorted(batch) == [1] * 12 + [2, 3, 4, 9]


async def test_a_stage_of_a_pipeline() -> None:
    """A stage with sizes takes lists, of these sizes."""
    pipeline: Pipeline[str, Any] = Pipeline([Stage(str.upper), Stage(sized.count, sizes=[4])])
    async with pipeline:
        assert await pipeline("a") == ("A", "A", "A", "A")


async def test_an_endpoint_of_a_service() -> None:
    """Bodies are read and results written without pads."""
    service = Service("sized")
    seen: list[int] = []

    @service.endpoint("/double", sizes=SIZES)
    async def double(items: list[int]) -> list[int]:
        seen.append(len(items))
        return [2 * item for item in items]

    async with service.running_workers():
        assert await asyncio.gather(*map(service["/double"], (1, 2, 3))) == [2, 4, 6]
    assert seen == [4]


# ------------------------------------------------------------------- warm-up, parts, and blame


async def test_warm_up_runs_exactly_these() -> None:
    """So that a model has compiled all that it will ever run."""
    ran: list[int] = []

    @batched(sizes=[3, 5], examples=["a", "b"])
    async def handler(items: list[str]) -> list[str]:
        ran.append(len(items))
        return items

    async with handler:
        assert ran == 3 * [3, 5]
        assert await asyncio.gather(*map(handler, "abcd")) == [*"abcd"]
    assert ran[6:] == [5]


async def test_parts_of_a_batch_that_raised_run_in_sizes_too() -> None:
    """Seven run as eight; their parts are filled up as well, and one gets the error."""
    ran: list[int] = []

    @batched(sizes=SIZES, idempotent=True)
    async def handler(items: list[int]) -> list[int]:
        ran.append(len(items))
        if 0 in items:
            raise ValueError("nought")
        return items

    async with handler:
        answers = await asyncio.gather(*map(handler, range(7)), return_exceptions=True)
    assert isinstance(answers[0], ValueError)
    assert answers[1:] == [1, 2, 3, 4, 5, 6]
    assert ran[0] == 8
    assert set(ran) <= set(SIZES)


async def test_the_scheduler_knows_what_the_handler_runs() -> None:
    """What a batch is recorded with is what it had."""
    ran: list[int] = []

    class Observer:
        def __init__(self) -> None:
            self.padded: list[int] = []

        def batch_ended(self, record: Any, *_: object) -> None:
            self.padded.append(record.padded_size)

    observer = Observer()

    @batched(sizes=[2, 3, 7], observers=[observer], max_latency=1.0)
    async def handler(items: list[int]) -> list[int]:
        ran.append(len(items))
        await asyncio.sleep(0.01)
        return items

    async with handler:
        assert await handler.map(range(50)) == [*range(50)]
    assert observer.padded == ran


@pytest.mark.parametrize("returned", [[1, 2, 3], np.ones(3)])
async def test_too_few_results(returned: Sequence[Any]) -> None:
    """They are counted with those of the pads: which of them are missing can't be known."""

    @batched(sizes=[4])
    async def handler(items: list[int]) -> Any:
        return returned

    async with handler:
        answers = await asyncio.gather(*map(handler, range(3)), return_exceptions=True)
    for answer in answers:
        assert isinstance(answer, BatchFunctionError)
        assert "expected 4 results for a batch of 4, got 3" in str(answer)


def test_a_model_that_recompiles_meets_no_new_size() -> None:
    """Not after a warm-up of a few sizes or of all; without one, the very first batch is one."""

    async def slowed(**arguments: Any) -> int:
        handler = batched(workers=Processes(1), **arguments)
        async with handler(sized.Recompiles) as model:
            waiting = []
            for number in range(120):
                await asyncio.sleep(0.05 if number % 12 == 0 else 0)
                waiting.append(asyncio.ensure_future(model(number)))
                if number % 12 in {2, 8}:
                    await asyncio.sleep(0.01)
            answers = await asyncio.gather(*waiting)
        assert all(answer in {number, None} for number, answer in enumerate(answers))
        return answers.count(None)

    assert asyncio.run(slowed(sizes=[1, 2, 4, 8, 16], examples=[0])) == 0
    assert asyncio.run(slowed(max_batch_size=16, examples=[0])) == 0
    assert asyncio.run(slowed(max_batch_size=16)) > 0


# ---------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"sizes": 8}, TypeError, r"sizes: expected a list of whole numbers.*got 8"),
        ({"sizes": [4, 2]}, ValueError, r"sizes: expected whole numbers.*got \[4, 2\]"),
        ({"sizes": [10**30]}, ValueError, r"sizes: expected at most 2147483648 items, got \[10+\]"),
        ({"sizes": np.array([4, 2])}, ValueError, r"sizes: expected whole numbers.*got \[4, 2\]"),
        ({"sizes": ["8"]}, ValueError, r"sizes: expected whole numbers"),
        ({"sizes": []}, ValueError, r"sizes: expected a list.*or None for any size, got \[\]"),
        ({"cost": len, "pad_costs": ()}, ValueError, r"pad_costs: expected a list.*, got \(\)"),
        (
            {"sizes": [2, 4], "max_batch_size": 3},
            ValueError,
            r"max_batch_size: expected one of sizes=\[2, 4\], or to be left out.* got 3",
        ),
        ({"pad": np.zeros_like}, ValueError, r"pad: expected sizes=\[...\]"),
        ({"sizes": [2], "pad": 0}, TypeError, r"pad: expected a plain function.*got 0"),
    ],
)
def test_what_is_wrong_is_told_where_it_was_written(
    arguments: dict[str, Any], kind: type[Exception], message: str
) -> None:
    """By whatever takes sizes."""
    declare: list[Callable[..., Any]] = [batched, Service("sized").endpoint, cooperative, Stage]
    for taker in declare:
        handler: list[Any] = [] if taker is batched else [sized.count]
        if isinstance(getattr(taker, "__self__", None), Service):
            handler = ["/path"]
        with pytest.raises(kind, match=message):
            taker(*handler, **arguments)


@pytest.mark.parametrize(("most", "ran"), [(2, [1, 2]), (4, [1, 2, 4])])
async def test_a_largest_batch_of_any_of_the_sizes(most: int, ran: list[int]) -> None:
    """Batches hold no more than is said, not even those of the warm-up."""
    seen: list[int] = []

    @batched(sizes=[1, 2, 4], max_batch_size=most, examples=["a"])
    async def handler(items: list[str]) -> list[str]:
        seen.append(len(items))
        return items

    async with handler:
        assert seen == 3 * ran
        await handler.map("abcde")
    assert max(seen) == most


# ------------------------------------------------------------------------- workers that come


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"sizes": SIZES, "pad": sized.exclaim}, "pad: expected none, .*: start them with --sizes"),
        ({"init_args": {"path": "model.pt"}}, "init_args: expected none, .* connect build their"),
    ],
)
def test_workers_that_connect_get_none_of_what_a_handler_is_built_with(
    given: dict[str, Any], told: str
) -> None:
    """They are refused where the handler is registered, and a socket alone is not."""
    socket = "unix:/run/model.sock"
    faces: list[Callable[..., Any]] = [
        lambda **how: batched(**how)(sized.Seen),
        lambda **how: Service().endpoint("/count", **how)(sized.Seen),
        lambda **how: Stage(sized.Seen, **{"max_batch_size": None, **how}),
    ]
    for face in faces:
        with pytest.raises(ValueError, match=told):
            face(workers=socket, **given)
        face(workers=socket, sizes=SIZES)
