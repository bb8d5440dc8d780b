"""Contestants take turns, so that a noisy machine is unkind to all of them alike."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

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
