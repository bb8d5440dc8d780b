"""`cost=` told as stories: what calls of functions, methods, processes, stages and threads see."""

import asyncio
import os
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from functools import wraps
from math import inf, nan
from typing import Any

import numpy as np
import pytest

from adaptive_batching import Pipeline, Service, Stage
from adaptive_batching.batching import batched
from adaptive_batching.cooperation import Cooperative, cooperative
from adaptive_batching.core import JobOutcome, Limits
from adaptive_batching.errors import BatchFunctionError, CostError, InvalidItem, JobTooLarge
from adaptive_batching.marshal.service.endpoints import Endpoint
from tests.virtual_time import run_virtually


def padded_size(texts: Sequence[str]) -> int:
    return len(texts) * max(map(len, texts))


# ----------------------------------------------------------------------------- what is batched


async def test_a_function_of_texts() -> None:
    """No batch is larger than max_batch_cost, padded to its longest text; each text is weighed
    once, as it comes.
    """
    batches: list[list[str]] = []
    weighed: list[str] = []

    def length(text: str) -> int:
        weighed.append(text)
        return len(text)

    @batched(cost=length, padded=True, max_batch_cost=12)
    async def upper(texts: list[str]) -> list[str]:
        batches.append(texts)
        return [text.upper() for text in texts]

    texts = ["abcdef", "a", "abcde", "ab", "b", "abc"]
    async with upper:
        assert await asyncio.gather(*map(upper, texts)) == [text.upper() for text in texts]
        assert await upper.map(texts) == [text.upper() for text in texts]
        assert await asyncio.to_thread(upper.call_from_thread, "xyz") == "XYZ"
        assert await asyncio.to_thread(upper.map_from_thread, texts) == [*map(str.upper, texts)]
    assert max(map(padded_size, batches)) == 12
    assert sorted(weighed) == sorted([*3 * texts, "xyz"])


async def test_a_sum_of_costs() -> None:
    """Where nothing is padded, the costs of a batch add up."""
    batches: list[list[str]] = []

    @batched(cost=len, max_batch_cost=8)
    async def upper(texts: list[str]) -> list[str]:
        batches.append(texts)
        return [text.upper() for text in texts]

    async with upper:
        await asyncio.gather(*map(upper, ["abcdef", "ab", "abcdefg", "a"]))
    assert max(sum(map(len, batch)) for batch in batches) <= 8


class Speller:
    """A model of a user's class, with a batched method."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    @batched(cost=len, padded=True, max_batch_cost=4)
    async def spell(self, texts: list[str]) -> list[int]:
        self.batches.append(texts)
        return [len(text) for text in texts]


async def test_a_method() -> None:
    """Its items have costs, and its instances batches of their own."""
    speller = Speller()
    async with speller.spell:
        assert await asyncio.gather(*map(speller.spell, ["ab", "cd", "ef"])) == [2, 2, 2]
    assert [*map(len, speller.batches)] == [2, 1]


_weighed_in: list[int] = []


def weigh(number: int) -> float:
    _weighed_in.append(os.getpid())
    return number


@batched(cost=weigh, max_batch_cost=10)
class InProcess:
    """Says in which process it runs, and how large its batch is."""

    def __call__(self, numbers: list[int]) -> list[tuple[int, int]]:
        return [(os.getpid(), sum(numbers))] * len(numbers)


async def test_a_worker_process() -> None:
    """Items are weighed where they are called with, and their batches run elsewhere."""
    del _weighed_in[:]
    async with InProcess:
        results = await InProcess.map([4, 4, 4, 4])
    assert _weighed_in == [os.getpid()] * 4
    assert os.getpid() not in {where for where, _ in results}
    assert max(total for _, total in results) <= 10


async def test_stages_weigh_what_reaches_them() -> None:
    """Each stage of a pipeline has a function of its own, of its own items."""
    batches: list[list[int]] = []

    async def lengths(texts: list[str]) -> list[int]:
        return [len(text) for text in texts]

    async def halve(numbers: list[int]) -> list[int]:
        batches.append(numbers)
        return [number // 2 for number in numbers]

    pipeline = Pipeline[str, int](
        [
            Stage(lengths, max_batch_size=8),
            Stage(halve, max_batch_size=8, cost=float, max_batch_cost=6),
        ]
    )
    async with pipeline:
        assert await pipeline.map(["ab", "abcd", "abcdef", "ab"]) == [1, 2, 3, 1]
        with pytest.raises(JobTooLarge, match="at most max_batch_cost=6, got 7"):
            await pipeline("abcdefg")
    assert max(map(sum, batches)) <= 6


def test_threads_that_batch_for_one_another() -> None:
    """Several items of one caller stay together and cost as much as they would in a batch."""
    batches: list[list[str]] = []

    def upper(texts: list[str]) -> list[str]:
        batches.append(texts)
        return [text.upper() for text in texts]

    queue = cooperative(upper, cost=len, padded=True, max_batch_cost=6)
    handles = [queue.submit(text) for text in ("ab", "cd", "efg")]
    assert [handle.result() for handle in handles] == ["AB", "CD", "EFG"]
    assert [*map(padded_size, batches)] in ([4, 3], [6, 2])
    assert queue.call_many(["abc", "d"]) == ["ABC", "D"]
    with pytest.raises(JobTooLarge, match="got 8"):
        queue.call_many(["abcd", "e"])
    with pytest.raises(ValueError, match="item"):
        queue.call_many([])
    assert Cooperative(upper, Limits(8), cost=len).call("ab") == "AB"  # nothing asks for costs


# --------------------------------------------------------------------------- what is learned


def test_what_batches_took_is_learned_by_their_cost() -> None:
    """The stats say what each unit of cost adds."""

    async def main() -> None:
        clock = asyncio.get_running_loop().time

        async def read(texts: list[str]) -> list[int]:
            await asyncio.sleep(4e-3 + 1e-5 * padded_size(texts))
            return [len(text) for text in texts]

        stage = Stage(read, max_batch_size=8, cost=len, padded=True)
        async with Pipeline[str, int]([stage], clock=clock) as pipeline:
            for length in range(1, 400):
                await asyncio.gather(*(pipeline("x" * length) for _ in range(1 + length % 3)))
            (stats,) = pipeline.stats().stages
            assert stats.fixed == pytest.approx(4e-3, rel=0.05)
            assert stats.per_cost == pytest.approx(1e-5, rel=0.05)
            assert stats.per_worker[0].per_cost == stats.per_cost

    run_virtually(main())


async def test_without_costs_the_stats_have_none() -> None:
    """Where items cost the same, nothing depends on their cost."""

    @batched
    async def double(items: list[int]) -> list[int]:
        return [2 * item for item in items]

    assert double.stats().per_cost == 0
    async with double:
        assert await double(1) == 2
        assert double.stats().per_cost == double.stats().per_worker[0].per_cost == 0


async def test_a_cost_that_wraps_a_function_of_more() -> None:
    """What counts is what is called, not what it stands for."""

    def scaled(text: str, scale: float) -> float:
        return scale * len(text)

    @wraps(scaled)
    def cost(text: str) -> float:
        return scaled(text, 2.0)

    @batched(cost=cost)
    async def upper(texts: list[str]) -> list[str]:
        return [text.upper() for text in texts]

    async with upper:
        assert await upper("abc") == "ABC"


# -------------------------------------------------------------------------------- what is wrong


class Odd:
    def __repr__(self) -> str:
        raise RuntimeError


class OddNumber(float):
    def __ge__(self, other: object) -> bool:
        raise RuntimeError


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (-1, "got -1"),
        (nan, "got nan"),
        (inf, "got inf"),
        (1e16, r"got 1e\+16"),
        (10**400, "got 1000"),
        (None, "got None"),
        ("5", "got '5'"),
        (True, "got True"),
        (np.True_, r"got np\.True_"),
        (np.array(True), r"got array\( *True\)"),  # noqa: FBT003
        (np.array(-1.0), r"got array\(-1"),
        (np.array([3.0]), r"got array\(\[3"),
        (np.array("5"), "got array"),
        (np.complex128(1), "got np"),
        (Decimal("sNaN"), "got Decimal"),
        (Fraction(10**400), "got Fraction"),
        (np.ma.masked, "got masked"),
        ([1, 2], r"got \[1, 2\]"),
        pytest.param(10**5000, "got an object of int", id="more digits than Python writes"),
        (Odd(), "got an object of Odd"),
        (OddNumber(3), "got 3.0"),
    ],
)
async def test_a_cost_that_is_no_cost(returned: object, said: str) -> None:
    """Only that item's call fails, and the function that returned it is named."""

    def odd(item: int) -> Any:
        return returned if item == 1 else item

    @batched(cost=odd)
    async def double(items: list[int]) -> list[int]:
        return [2 * item for item in items]

    async with double:
        good, bad, other = await asyncio.gather(*map(double, range(3)), return_exceptions=True)
    assert (good, other) == (0, 4)
    assert isinstance(bad, CostError)
    with pytest.raises(
        CostError, match=rf"^cost: expected a number from 0 to 9\.0072e\+15.*{said}"
    ):
        raise bad


async def test_a_cost_function_that_raises() -> None:
    """Its call fails, with the error and the function named; `InvalidItem` blames the item."""

    def tokens(text: str) -> int:
        if not text:
            raise InvalidItem("$", "expected a text that is not empty")
        return len(text)

    @batched(cost=tokens)
    async def upper(texts: list[str]) -> list[str]:
        return [text.upper() for text in texts]

    async with upper:
        calls = upper("a"), upper(5), upper("")  # type: ignore[arg-type]
        good, wrong, empty = await asyncio.gather(*calls, return_exceptions=True)
        with pytest.raises(CostError, match="raised TypeError"):
            await asyncio.to_thread(upper.call_from_thread, 5)  # type: ignore[arg-type]
    assert good == "A"
    assert isinstance(wrong, CostError)
    assert isinstance(wrong.__cause__, TypeError)
    assert "expected a number for each item from test_a_cost_function" in str(wrong)
    assert isinstance(empty, InvalidItem)
    assert +Counter(upper.stats().requests) == {JobOutcome.DONE: 2, JobOutcome.FAILED: 2}


async def test_a_stage_counts_the_item_whose_cost_is_unknown() -> None:
    """The pipeline and the stage whose function is at fault count it alike."""
    stages = [Stage(lambda items: items), Stage(model, cost=lambda _: -1)]
    async with Pipeline[int, int](stages) as pipeline:
        with pytest.raises(CostError):
            await pipeline(1)
        stats = pipeline.stats()
    counted = [+Counter(each.requests) for each in (stats, *stats.stages)]
    assert counted == [{JobOutcome.FAILED: 1}, {JobOutcome.DONE: 1}, {JobOutcome.FAILED: 1}]


async def test_numbers_of_all_kinds_are_costs() -> None:
    """Whatever is a real number is one, also in an array without dimensions."""
    costs: list[Any] = [3, 2.5, np.int64(4), np.float32(1.5), Fraction(1, 2), Decimal("0.25"), 0]
    costs += [np.array(2), np.array(2.5), np.array([[1, 2], [3, 4]]).sum()]

    @batched(cost=lambda item: costs[item], max_batch_cost=100)
    async def double(items: list[int]) -> list[int]:
        return [2 * item for item in items]

    async with double:
        assert await double.map(range(len(costs))) == [2 * item for item in range(len(costs))]


async def test_an_item_that_no_batch_can_hold() -> None:
    """It is refused before any work, with its cost and the limit."""

    @batched(cost=len, max_batch_cost=3)
    async def upper(texts: list[str]) -> list[str]:
        return [text.upper() for text in texts]

    async with upper:
        with pytest.raises(JobTooLarge, match="a cost of at most max_batch_cost=3, got 4"):
            await upper("four")
        assert await upper("one") == "ONE"


async def awaited(item: object) -> float:
    raise NotImplementedError


def model(items: list[int]) -> list[int]:
    raise NotImplementedError


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"padded": True}, ValueError, "padded: expected cost=.*, got padded=True alone"),
        ({"max_batch_cost": 9}, ValueError, "max_batch_cost: expected cost=.*, got .*=9 alone"),
        ({"cost": len, "max_batch_cost": 0}, ValueError, "expected a positive number, got 0"),
        (
            {"cost": len, "max_batch_cost": Decimal("sNaN")},
            ValueError,
            "max_batch_cost: expected a positive number, got Decimal",
        ),
        (
            {"cost": len, "pad_costs": [128, np.ma.masked]},
            ValueError,
            r"pad_costs: expected positive numbers.*, got \[128, masked\]",
        ),
        ({"cost": 5}, TypeError, "cost: expected a function that is not async.*, got 5"),
        (
            {"cost": len, "padded": "False"},
            TypeError,
            "padded: expected True or False, got 'False'",
        ),
        ({"cost": awaited}, TypeError, "cost: expected a function that is not async"),
        ({"cost": lambda: 1}, TypeError, "cost: expected a function of one item.*: too many"),
    ],
)
@pytest.mark.parametrize(
    "face",
    [
        lambda **options: batched(**options)(model),
        lambda **options: Stage(model, max_batch_size=8, **options),
        lambda **options: cooperative(model, **options),
    ],
)
def test_what_makes_no_sense_is_refused_where_it_is_written(
    face: Any, options: dict[str, Any], error: type[Exception], said: str
) -> None:
    """The message says what was expected, and what goes with it."""
    with pytest.raises(error, match=said):
        face(**options)


@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()])
async def test_a_function_that_exits_ends_nothing(raised: BaseException) -> None:
    """It is at fault as one that raises an error is; the call's task and the program go on."""

    def exits(_: str) -> float:
        raise raised

    @batched(cost=exits)
    async def upper(texts: list[str]) -> list[str]:
        return [text.upper() for text in texts]

    async with upper:
        with pytest.raises(CostError, match=f"exits, which raised .*{type(raised).__name__}"):
            await upper("a")


@pytest.mark.parametrize("most", [np.int64(3), np.float32(3), np.array(3)])
def test_numbers_of_numpy(most: Any) -> None:
    """They are taken as Python's are."""
    limits = Stage(model, max_batch_size=8, cost=len, max_batch_cost=most, sizes=np.array([1, 8]))
    assert (limits.limits.sizes, repr(limits.limits.costs.max_batch_cost)[0]) == ((1, 8), "3")


def test_a_cost_error_is_the_fault_of_the_program() -> None:
    """It is a 500 with a code of its own, no wrong result."""
    assert (CostError.status, CostError.code) == (500, "bad_cost")
    assert not issubclass(CostError, BatchFunctionError)


# ------------------------------------------------------------------------ costs that are rounded up


async def test_items_cost_what_the_model_pads_them_to() -> None:
    """Texts of one to four characters cost four each: two of them are all that fits into eight."""
    batches: list[list[str]] = []

    @batched(cost=len, padded=True, max_batch_cost=8, pad_costs=[4, 8])
    async def upper(texts: list[str]) -> list[str]:
        batches.append(texts)
        return [text.upper() for text in texts]

    texts = ["a", "ab", "abc", "abcd", "abcde"]
    async with upper:
        assert await asyncio.gather(*map(upper, texts)) == [text.upper() for text in texts]
        with pytest.raises(JobTooLarge, match="got 9"):
            await upper("abcdefghi")
    assert sorted(map(len, batches)) == [1, 2, 2]


def test_threads_and_stages_round_costs_up_too() -> None:
    """Where a thread brings several, each is rounded by itself."""
    queue = cooperative(lambda texts: texts, cost=len, max_batch_cost=11, pad_costs=[4])
    assert queue.call_many(["a", "ab"]) == ["a", "ab"]
    with pytest.raises(JobTooLarge, match="got 12"):
        queue.call_many(["a", "b", "c"])
    stage = Stage(str.upper, cost=len, pad_costs=[4.0, 8.0])
    assert [*map(stage.cost_of, ["", "abcd", "abcde", 9 * "a"])] == [4, 4, 8, 9]


def test_bodies_of_an_endpoint_are_rounded_up() -> None:
    """By their length, or by a function of what they hold."""
    service = Service()
    for path, cost in [("/bytes", "bytes"), ("/items", len)]:

        @service.endpoint(path, cost=cost, pad_costs=[4, 8])  # type: ignore[arg-type]
        def upper(texts: list[str]) -> list[str]:
            return [text.upper() for text in texts]

    weigh = [endpoint.cost_of for endpoint in service if isinstance(endpoint, Endpoint)]
    assert [each and each(b'"abc"') for each in weigh] == [8, 4]


@pytest.mark.parametrize(
    ("wrong", "kind", "message"),
    [
        ([4, 2], ValueError, r"pad_costs: expected positive numbers.*got \[4, 2\]"),
        ([0, 2], ValueError, "pad_costs: expected positive numbers"),
        ([1, inf], ValueError, "pad_costs: expected positive numbers"),
        (["4"], ValueError, "pad_costs: expected positive numbers"),
        (4, TypeError, "pad_costs: expected a list of numbers"),
    ],
)
def test_costs_to_pad_to_that_are_none(wrong: Any, kind: type[Exception], message: str) -> None:
    """They are told where they were written, and so are those that stand without `cost`."""
    with pytest.raises(kind, match=message):
        batched(cost=len, pad_costs=wrong)
    with pytest.raises(ValueError, match=r"pad_costs: expected cost="):
        batched(pad_costs=[4])
