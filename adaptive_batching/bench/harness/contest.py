"""Contestants take turns, so that a noisy machine is unkind to all of them alike."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

from adaptive_batching.bench.harness.report import Row, ratio

T = TypeVar("T")


async def take_turns(
    contestants: Mapping[str, Callable[[], Awaitable[T]]], rounds: int
) -> dict[str, list[T]]:
    """Run each contestant once a round, forwards and backwards by turns.

    Returns:
        The outcomes by contestant, in the order of the rounds.
    """
    outcomes: dict[str, list[T]] = {name: [] for name in contestants}
    for number in range(rounds):
        order = list(contestants)[:: -1 if number % 2 else 1]
        for name in order:
            outcomes[name].append(await contestants[name]())
    return outcomes


@dataclass(frozen=True, slots=True)
class Contest:
    """What contestants reached in each round, as figures by name.

    Attributes:
        rounds: By contestant, in the order of the rounds.
    """

    rounds: Mapping[str, Sequence[Mapping[str, float]]]

    def times(self, one: str, other: str, figure: str = "requests/s") -> float:
        """How many times another's figure one has, in the median of the rounds."""
        ours, theirs = ([each[figure] for each in self.rounds[name]] for name in (one, other))
        return ratio(ours, theirs)

    def rows(self, heading: str, other: str, times: Mapping[str, str]) -> list[Row]:
        """A line for each contestant: the medians of its figures, and how they stand to another's.

        Args:
            heading: Of the contestants' names.
            other: The contestant that all are compared with.
            times: Headings of ratios, and of which figures they are.
        """
        return [
            {
                heading: name,
                **medians(turns),
                **{what: self.times(name, other, figure) for what, figure in times.items()},
            }
            for name, turns in self.rounds.items()
        ]


def medians(turns: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The median of each figure over some rounds."""
    return {figure: median(each[figure] for each in turns) for figure in turns[0]}


async def hold(
    contestants: Mapping[str, Callable[[], Awaitable[Mapping[str, float]]]],
    rounds: int,
    *,
    quick: bool,
) -> Contest:
    """Let contestants take turns, after a round that warms up unless it has to be quick."""
    await take_turns(contestants, 0 if quick else 1)
    return Contest(await take_turns(contestants, rounds))
