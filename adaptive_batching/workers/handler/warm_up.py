"""Batches that a worker runs before its first request, which so waits for no cold start."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import cycle, groupby, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from adaptive_batching.errors import WorkerStartError
from adaptive_batching.exception_text import message_of, qualname_of
from adaptive_batching.units import format_duration
from adaptive_batching.workers.handler.results import CallRaised, check_results, sequence_of

if TYPE_CHECKING:  # worker processes import this module, but decide nothing
    from adaptive_batching.core import Costs, Limits

_log = logging.getLogger("adaptive_batching.workers")

_COLD = 8.0  # times the shortest batch; noise and empty caches delay a first run by two or three
_LONGEST = 30.0  # seconds; a start that takes longer disturbs more than single slow batches
_SLOW_AT_FIRST = (
    "%s: the first batch of a size takes up to %s longer than the second, and %d other sizes would "
    "take longer than the %s that a warm-up may: declare a few with sizes=[…], which then run "
    "before the first request"
)

Run = Callable[[list[Any]], Awaitable[Sequence[Any]]]
Weigh = Callable[[Any], float]
"""What an example costs."""


class Measured(NamedTuple):
    """A batch of examples that has run.

    Attributes:
        size: Items.
        cost: What they cost together; 0 where items cost the same.
        duration: Seconds.
    """

    size: int
    cost: float
    duration: float


Durations = list[Measured]


class Timing(NamedTuple):
    """How long a batch of examples took.

    Attributes:
        worker: The index of the worker.
        size: Items.
        duration: Seconds.
        cost: What they cost together; 0 where items cost the same.
    """

    worker: int
    size: int
    duration: float
    cost: float = 0.0


class _Rehearsal(NamedTuple):
    """A batch to run: which of the examples, and what they cost together."""

    numbers: list[int]
    cost: float


class WarmUp:
    """Runs examples in batches of the allowed sizes, else of 1, 2, 4 … and `max_batch_size`.

    Where examples don't cost the same, each size runs once with those that cost less and once with
    those that cost more, as far as a batch may cost that much: so it is known from the beginning
    what a unit of cost takes. Where a model pads items to a few costs, each size runs once with the
    examples of each of these costs.

    Args:
        examples: Items, repeated as needed; without any, nothing is run (`NO_WARM_UP`).
        max_batch_size: Items in the largest batch.
        costs: How the costs of items add up; None if all cost the same.
        weigh: What an example costs, as `Costs.rounded` says; only where there are costs.
        sizes: Of the batches that the model takes; empty if it takes any.

    Raises:
        ValueError: An example costs more than a batch may.
    """

    def __init__(
        self,
        examples: Sequence[Any],
        max_batch_size: int,
        costs: "Costs | None" = None,
        weigh: Weigh | None = None,
        sizes: Sequence[int] = (),
    ) -> None:
        self._examples = tuple(examples)
        self._most, self._costs, self._takes_any = max_batch_size, costs, not sizes
        known = (sizes or _powers_of_two(max_batch_size)) if self._examples else []
        self._sizes = [size for size in known if size <= max_batch_size]
        self._weights = [0.0 if weigh is None else weigh(each) for each in self._examples]
        self._groups = [[*range(len(self._examples))]]
        if self._examples and costs is not None:
            self._groups = _alike(self._weights, costs)
        self._batches = [each for size in self._sizes for each in self._of_size(size)]

    async def run(self, name: str, run: Run) -> Durations:
        """Run each batch once; returns the sizes and costs with their seconds.

        The first time they may compile, allocate and fill caches: run again to learn something.

        Args:
            name: What the worker is called in messages.
            run: Runs a batch on it.

        Raises:
            WorkerStartError: A batch failed, or an example in it.
        """
        return [
            Measured(len(each.numbers), each.cost, await self._time(each.numbers, name, run))
            for each in self._batches
        ]

    def goes_on(
        self, name: str, cold: Durations, warm: Durations, patience: float = _LONGEST
    ) -> bool:
        """Whether all other sizes are to run too (`meet`), because each size is slow at first.

        A GPU's libraries choose kernels for each shape when they meet it: 50 ms, and 2 ms from then
        on, was measured for a network of PyTorch. Such a batch would come in the middle of traffic.
        What makes only the very first batch slow concerns no other size.

        Args:
            name: What the worker is called in messages.
            cold: What the first run of each batch took.
            warm: What the second took.
            patience: Seconds that the other sizes may take; the log says so if they would not do.
        """
        others = self._rest * len(cold) // max(1, len(self._sizes))
        delays: dict[int, float] = {}
        for first, later in zip(cold, warm, strict=True):
            delay = first.duration - later.duration
            # a size is met once, whatever its items cost the next time
            delays[first.size] = max(delay, delays.get(first.size, 0.0))
        _, *of_others = delays.values() or (0.0,)  # the very first also loads the model
        if not (others and of_others):
            return False
        # A pause may hide the delay of one size; it makes no batch shorter.
        least = sorted(of_others)[min(1, (len(of_others) - 1) // 2)]
        if least < _COLD * min(each.duration for each in warm):
            return False
        patience, longest = min(patience, _LONGEST), max(of_others)
        durations = [each.duration for each in warm]
        usual = (min(durations) + max(durations)) / 2  # of all sizes, where they lie on a line
        if (longest + usual) * others <= patience:
            return True
        longer, most = format_duration(longest), format_duration(patience)
        _log.warning(_SLOW_AT_FIRST, name, longer, others, most)
        return False

    async def meet(self, name: str, run: Run, patience: float = _LONGEST) -> None:
        """Run a batch of each size that `run` leaves out, the smallest first, while time is left.

        Args:
            name: What the worker is called in messages.
            run: Runs a batch on it.
            patience: Seconds after which no other batch begins.

        Raises:
            WorkerStartError: A batch failed, or an example in it.
        """
        clock = asyncio.get_running_loop().time
        until = clock() + min(patience, _LONGEST)
        known = set(self._sizes)
        sizes = (size for size in range(1, self._top + 1) if size not in known)
        for each in (each for size in sizes for each in self._of_size(size)):
            if clock() >= until:
                break
            await self._time(each.numbers, name, run)

    @property
    def _top(self) -> int:
        """A size that no other exceeds: the next that was tried cost more than a batch may."""
        largest = max((len(each.numbers) for each in self._batches), default=0)
        return min(self._most, 2 * largest)

    @property
    def _rest(self) -> int:
        """How many sizes `run` leaves out, at the most."""
        return self._top - sum(size <= self._top for size in self._sizes) if self._takes_any else 0

    def _of_size(self, size: int) -> Iterator[_Rehearsal]:
        """The batches of so many examples: one of each group, if it may cost that much."""
        costs = self._costs
        for numbers in self._groups:
            chosen = _repeated(numbers, size)
            cost = 0.0 if costs is None else costs.of_batch([self._weights[i] for i in chosen])
            if costs is None or cost <= costs.max_batch_cost:
                yield _Rehearsal(chosen, cost)
            elif size == self._sizes[0]:
                most = f"a cost of at most max_batch_cost={costs.max_batch_cost:g}"
                got = f"{cost:g} of example {chosen[0]}"
                often = f", {size} times" if size > 1 else ""
                raise ValueError(f"examples: expected {most}, got {got}{often}")

    async def _time(self, numbers: list[int], name: str, run: Run) -> float:
        clock = asyncio.get_running_loop().time
        batch = [self._examples[number] for number in numbers]
        size = len(batch)
        began = clock()
        try:
            results = check_results(await run(batch), size)
        except Exception as error:
            raise WorkerStartError(f"{name} failed {_said(size, error)}") from error
        duration = clock() - began
        for number, result in zip(numbers, results, strict=True):
            if isinstance(result, BaseException):
                cause = result.error if type(result) is CallRaised else result
                msg = f"{name} failed on example {number} {_said(size, cause)}"
                raise WorkerStartError(msg) from cause
        return duration


NO_WARM_UP = WarmUp((), 1)


def make_warm_up(examples: Sequence[Any], limits: "Limits", weigh: Weigh | None = None) -> WarmUp:
    """A warm-up with these examples, or none if there are none; see `listed` and `WarmUp`."""
    items = listed(examples)
    if not items:
        return NO_WARM_UP
    return WarmUp(items, limits.max_batch_size, limits.costs, weigh, limits.sizes)


def listed(examples: object) -> Sequence[Any]:
    """The items of a list of examples.

    Raises:
        TypeError: It is no list.
    """
    items = sequence_of(examples)
    if items is None:
        raise TypeError(f"examples: expected a list of items, got {examples!r}")
    return items


async def warmed(warm_up: WarmUp, name: str, run: Run) -> Durations:
    """Warm up, then see how long the sizes take; see `WarmUp.run`."""
    cold, first = await warm_up.run(name, run), await warm_up.run(name, run)
    if warm_up.goes_on(name, cold, first):
        await warm_up.meet(name, run)
    return faster(first, await warm_up.run(name, run))


def faster(one: Durations, other: Durations) -> Durations:
    """Each batch's shorter duration: pauses make a run longer, nothing makes it shorter."""
    return [
        first._replace(duration=min(first.duration, second.duration))
        for first, second in zip(one, other, strict=True)
    ]


def timings(of_each_worker: Iterable[Durations]) -> tuple[Timing, ...]:
    """What several workers took, by their index."""
    return tuple(
        Timing(worker, each.size, each.duration, each.cost)
        for worker, durations in enumerate(of_each_worker)
        for each in durations
    )


def _alike(weights: Sequence[float], costs: "Costs") -> list[list[int]]:
    """The examples in groups: of each cost to which the model pads, else the cheaper and the other.

    What a model that pads to a few costs runs, it has compiled so before its first request.
    """
    order = sorted(range(len(weights)), key=weights.__getitem__)
    if costs.pad_costs:
        return [list(equal) for _, equal in groupby(order, weights.__getitem__)]
    if weights[order[0]] == weights[order[-1]]:
        return [order]
    half = len(order) // 2
    return [order[:half], order[half:][::-1]]


def _powers_of_two(max_batch_size: int) -> Sequence[int]:
    """Those below it, and itself."""
    powers = range((max_batch_size - 1).bit_length())
    return [*(2**power for power in powers), max_batch_size]


def _repeated(numbers: Sequence[int], size: int) -> list[int]:
    return list(islice(cycle(numbers), size))


def _said(size: int, error: BaseException) -> str:
    said = f"{qualname_of(type(error))}: {message_of(error)}"
    return f"in its warm-up, in a batch of {size}: {said}"
