"""Recorded traffic made denser: three ways that keep different things."""

from math import isfinite

import numpy as np
import numpy.typing as npt

from adaptive_batching.simulation.traffic.arrivals import Times

_FARTHEST = 1e9
_MOST = 1e8  # requests: a slip in a number should fail, not fill the memory


def speedup(times: Times, factor: float) -> Times:
    """Divide times by a factor: more requests a second, equally irregular.

    Raises:
        ValueError: The factor is not positive, or so large or small that nothing would be left.
    """
    expect_factor("speedup", factor)
    return times / factor


def expect_factor(name: str, factor: float) -> None:
    """Refuse to divide times by what makes them one instant, or eternity.

    Raises:
        ValueError: It is not within a factor of 1e9, which is nanoseconds to seconds.
    """
    if not 1 / _FARTHEST <= factor <= _FARTHEST:
        msg = f"{name}: expected a positive number from {1 / _FARTHEST:g} to {_FARTHEST:g}"
        raise ValueError(f"{msg}, got {factor}")


def superpose(times: Times, copies: int) -> tuple[Times, npt.NDArray[np.int64]]:
    """Lay shifted copies over one another, as many callers that know nothing of each other.

    Each copy starts a further `1 / copies` of the recording later, and what passes the end comes in
    again at the beginning. The rhythm of the day is lost, and gaps become as irregular as chance.

    Returns:
        The times in order, and for each the index of the request that it copies.

    Raises:
        ValueError: There is no copy, or the requests become too many.
    """
    if not 1 <= copies * max(1, len(times)) <= _MOST:
        msg = f"superpose: expected 1 copy or more and {_MOST:.0g} requests at the most"
        raise ValueError(f"{msg}, got {copies} of {len(times)}")
    length = times[-1] if len(times) else 0.0
    shifts = np.arange(copies)[:, np.newaxis] * length / copies
    shifted = times + shifts
    laid = np.where(shifted > length, shifted - length, shifted).ravel()
    order = np.argsort(laid, kind="stable")
    return laid[order], np.tile(np.arange(len(times)), copies)[order]


def scale_rate(times: Times, factor: float, seed: int = 0) -> tuple[Times, npt.NDArray[np.int64]]:
    """Keep the clock and change the number of requests: whole copies of each, and some by lot.

    A request that comes several times is spread over the gap to the next one, so that a busy minute
    stays a minute and no herd is made up.

    Returns:
        The times in order, and for each the index of the request that it comes from.

    Raises:
        ValueError: The factor is not positive, or the requests become too many.
    """
    if not (isfinite(factor) and factor > 0 and factor * len(times) <= _MOST):
        msg = f"rate-scale: expected a positive number and {_MOST:.0g} requests at the most"
        raise ValueError(f"{msg}, got {factor} times {len(times)}")
    rng = np.random.default_rng([_STREAM, seed])
    copies = (np.floor(factor) + (rng.random(len(times)) < factor % 1)).astype(np.int64)
    origin = np.repeat(np.arange(len(times)), copies)
    first = np.diff(origin, prepend=-1) > 0
    gaps = np.diff(times, append=times[-1:])[origin]
    scaled = times[origin] + np.where(first, 0.0, rng.random(len(origin)) * gaps)
    order = np.argsort(scaled, kind="stable")
    return scaled[order], origin[order]


_STREAM = 2  # arrivals and workers made with the same seed must not share our random numbers
