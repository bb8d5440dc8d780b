"""Traffic made to order: when requests arrive, the same for the same seed."""

from math import ceil, isfinite
from typing import Protocol

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.float64]

_MOST = 1e8  # requests: a slip in a unit should fail, not fill the memory
_SOJOURNS = (0.3, 0.1)  # seconds, quiet and busy: a burst is long beside a batch
_SWING = (0.5, 2.5)  # times the mean rate: a burst overloads what is half busy on average


class Generator(Protocol):
    """Makes arrivals: requests a second, for so many seconds."""

    def __call__(self, rate: float, duration: float, *, seed: int) -> Times:
        """Times in seconds, in order, from 0 until `duration`."""


def poisson(rate: float, duration: float, *, seed: int) -> Times:
    """Independent requests, `rate` a second on average: many users who know nothing of each other.

    Raises:
        ValueError: The rate or the duration is not positive, or too many requests would come.
    """
    _check(rate, duration)
    rng = np.random.default_rng(seed)
    return np.sort(rng.uniform(0.0, duration, rng.poisson(rate * duration)))


def mmpp(
    rate: float,
    duration: float,
    *,
    seed: int,
    rates: tuple[float, float] | None = None,
    sojourns: tuple[float, float] = _SOJOURNS,
) -> Times:
    """Traffic that switches between quiet and busy (a Markov-modulated Poisson process).

    Args:
        rate: Mean rate (requests a second), of which the default `rates` are made.
        duration: Seconds.
        seed: Of the random numbers.
        rates: Requests a second while quiet and while busy; by default half and 2.5 times `rate`,
            which with the default sojourns is `rate` on average.
        sojourns: Mean seconds of a quiet and of a busy spell; the spells are exponential.

    Raises:
        ValueError: A number is not positive, or too many requests would come.
    """
    quiet, busy = rates or (_SWING[0] * rate, _SWING[1] * rate)
    _check(max(rate, quiet, busy), duration)
    if min(quiet, busy) < 0 or not min(sojourns) > 0:
        msg = f"mmpp: expected rates of 0 or more and positive sojourns, got {rates} and {sojourns}"
        raise ValueError(msg)
    rng = np.random.default_rng(seed)
    spells = _spells(rng, duration, sojourns)
    counts = rng.poisson(np.where(np.arange(len(spells)) % 2, busy, quiet) * spells)
    starts = np.repeat(np.cumsum(spells) - spells, counts)
    return np.sort(starts + rng.random(counts.sum()) * np.repeat(spells, counts))


def clumped(
    rate: float, duration: float, *, seed: int, clump: int = 8, within: float = 1e-3
) -> Times:
    """Requests in clumps: callers that fan one request out into several.

    Args:
        rate: Mean rate (requests a second, not clumps).
        duration: Seconds.
        seed: Of the random numbers.
        clump: Requests in each.
        within: Seconds over which the requests of one clump are spread.

    Raises:
        ValueError: A number is not positive, or too many requests would come.
    """
    _check(rate, duration)
    if clump < 1 or not 0 <= within < duration:
        msg = f"clumped: expected 1 or more within less than {duration} s, got {clump} in {within}"
        raise ValueError(msg)
    rng = np.random.default_rng(seed)
    starts = rng.uniform(0.0, duration - within, rng.poisson(rate * duration / clump))
    return np.sort((starts[:, np.newaxis] + rng.uniform(0.0, within, (len(starts), clump))).ravel())


GENERATORS: dict[str, Generator] = {"poisson": poisson, "mmpp": mmpp, "clumped": clumped}


def _spells(rng: np.random.Generator, duration: float, sojourns: tuple[float, float]) -> Times:
    """Lengths of the quiet and busy spells by turns, the last one cut at the end."""
    pairs = np.empty((0, 2))
    while pairs.sum() < duration:
        more = 16 + ceil(duration / sum(sojourns))
        pairs = np.concatenate([pairs, rng.exponential(sojourns, (more, 2))])
    ends = np.minimum(np.cumsum(pairs.ravel()), duration)
    return np.diff(ends, prepend=0.0)


def _check(rate: float, duration: float) -> None:
    for name, value in (("rate", rate), ("duration", duration)):
        if not (isfinite(value) and value > 0):
            raise ValueError(f"{name}: expected a positive number, got {value}")
    if rate * duration > _MOST:
        msg = f"expected at most {_MOST:.0g} requests, got a rate of {rate} for {duration} s"
        raise ValueError(msg)
