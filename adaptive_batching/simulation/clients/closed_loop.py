"""Users who send the next request when the last one was answered."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Self

import numpy as np

from adaptive_batching.simulation.traffic.arrivals import Times
from adaptive_batching.units import format_duration, parse_duration

_BLOCK = 4096  # draws at a time
_STREAM = 3  # workers made with the same seed must not share our random numbers
_MOST_USERS = 100_000
_MOST = 1e9  # requests: a slip in a unit should fail, not go on for ever


@dataclass(frozen=True, slots=True)
class Span:
    """A duration that is uniform between two bounds (seconds)."""

    least: float
    most: float

    def __post_init__(self) -> None:
        if not (0 <= self.least <= self.most and isfinite(self.most)):
            msg = f"expected a range of 0 seconds or more, got {self.least} to {self.most}"
            raise ValueError(msg)

    def __str__(self) -> str:
        ends = (self.least, self.most) if self.least < self.most else (self.least,)
        return "-".join(format_duration(end).replace(" ", "") for end in ends)

    def draw(self, rng: np.random.Generator) -> Times:
        """Many of them."""
        return rng.uniform(self.least, self.most, _BLOCK)


def parse_span(text: str) -> Span:
    """Read `20ms`, or `0.3ms-2.3ms` for anything in between.

    Raises:
        ValueError: It is neither.
    """
    least, _, most = text.partition("-")
    ends = (least, most) if least and most else (text, text)
    return Span(*map(parse_duration, ends))


class ClosedLoop:
    """So many users; each waits for its answer, thinks, and sends again until the time is over.

    A refusal is an answer too. The first requests come after one round of thinking each.

    Args:
        users: How many.
        duration: Seconds; no user sends after it.
        think: What a user takes over an answer.
        turnaround: What the network and the client take for the way there and back.
        seed: Of the random numbers.

    Raises:
        ValueError: There are no users or too many, the time is not positive, or an answer and the
            next request could come in the same instant for ever.
    """

    def __init__(
        self, users: int, duration: float, think: Span, turnaround: Span, seed: int = 0
    ) -> None:
        if not 1 <= users <= _MOST_USERS:
            raise ValueError(f"users: expected 1 to {_MOST_USERS:,}, got {users}")
        if not (isfinite(duration) and duration > 0):
            raise ValueError(f"duration: expected a positive number, got {duration}")
        if not think.most + turnaround.most > 0:
            raise ValueError("think and turnaround: expected more than 0 seconds together, got 0")
        pause = (think.least + think.most + turnaround.least + turnaround.most) / 2
        if users * duration > _MOST * pause:
            msg = f"expected at most {_MOST:.0g} requests, got {users} users for {duration:g} s"
            raise ValueError(f"{msg} with {pause:.3g} s between an answer and the next request")
        self.users = users
        self.duration = duration
        self._spans = (think, turnaround)
        self._seed = seed
        self._delays = self._draw()

    def __str__(self) -> str:
        think, turnaround = self._spans
        return f"loop: {self.users} users, think {think}, turnaround {turnaround}"

    def with_users(self, users: int) -> Self:
        """As many other users, who think and wait as these do.

        Raises:
            ValueError: There are none or too many.
        """
        return type(self)(users, self.duration, *self._spans, self._seed)

    def begin(self) -> list[float]:
        """When the users come for the first time; the same again for every simulation."""
        self._delays = self._draw()
        return sorted(self.again(self.users, 0.0))

    def again(self, users: int, now: float) -> list[float]:
        """When users who were answered now send again, if they still do."""
        times = [now + next(self._delays) for _ in range(users)]
        return [time for time in times if time < self.duration]

    def _draw(self) -> Iterator[float]:
        rng = np.random.default_rng([_STREAM, self._seed])
        while True:
            yield from np.sum([span.draw(rng) for span in self._spans], axis=0).tolist()
