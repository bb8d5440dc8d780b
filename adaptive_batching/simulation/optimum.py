"""The least mean latency that any policy reaches with one worker and Poisson arrivals.

A policy that knows no arrival beforehand decides by the number of jobs that wait while the worker
is idle: wait for another one, or serve. The optimum is a control limit, "serve min(n, batch) from n
jobs on" (Deb and Serfozo 1973). The number in the system at the ends of batches is a Markov chain;
its jobs-seconds by the length of its cycles is the mean number in the system, and that divided by
the rate is the mean latency (Little).
"""

from dataclasses import dataclass
from math import ceil

import numpy as np
import numpy.typing as npt
from scipy.stats import poisson

from adaptive_batching.simulation.arrivals import Times

Counts = npt.NDArray[np.int64]

_TAIL = 1e-12  # probability beyond the states that are kept
_MOST_STATES = 1000  # more are needed only within 2 % of the capacity, where the mean says little


@dataclass(frozen=True, slots=True)
class ControlLimit:
    """Serve as soon as so many jobs wait, and what it brings.

    Attributes:
        jobs: The limit; 1 never waits.
        mean_latency: From arrival to answer (seconds).
    """

    jobs: int
    mean_latency: float


def least_mean_latency(rate: float, durations: Times) -> ControlLimit | None:
    """The best control limit, or None if the load comes too near to what the worker can do.

    Args:
        rate: Arrivals a second.
        durations: Seconds for a batch of 1, 2, ... jobs, as many as a batch may hold.
    """
    chain = _Chain.of(rate, durations)
    if chain is None:
        return None
    limits = range(1, len(durations) + 1)
    best = ControlLimit(1, chain.mean_latency(1))
    for jobs in limits[1:]:
        other = ControlLimit(jobs, chain.mean_latency(jobs))
        if other.mean_latency > best.mean_latency * (1 + 1e-9):
            break  # the cost has a single valley in the limit
        best = min(best, other, key=lambda each: each.mean_latency)
    return best


class _Chain:
    """Jobs in the system when the worker becomes idle.

    Args:
        rate: Arrivals a second.
        durations: Seconds by jobs in a batch.
        states: Numbers of waiting jobs that are told apart; more count as that many.
    """

    def __init__(self, rate: float, durations: Times, states: int) -> None:
        waiting = np.arange(states)
        served = np.minimum(np.maximum(waiting, 1), len(durations))
        lasts = durations[served - 1]
        self._rate = rate
        self._waiting = waiting
        self._seconds = lasts
        # Those who wait stay for the whole batch, those who come for half of it on average.
        self._cost = waiting * lasts + rate * lasts**2 / 2
        self._next = _transitions(waiting - served, rate * lasts)

    @classmethod
    def of(cls, rate: float, durations: Times) -> "_Chain | None":
        """With as many states as the tail of the queue needs; None if those are too many."""
        batch = len(durations)
        per_batch = rate * float(durations[-1])
        if per_batch >= batch:
            return None
        spread = -np.log(_TAIL) * per_batch / (2 * (batch - per_batch))
        states = 2 * batch + 40 + ceil(spread + 8 * per_batch**0.5)
        return cls(rate, durations, states) if states <= _MOST_STATES else None

    def mean_latency(self, limit: int) -> float:
        """Of the policy that serves as soon as `limit` jobs wait (seconds)."""
        begun = np.maximum(self._waiting, limit)
        share = self._stationary(begun)
        missing = begun - self._waiting
        idle = missing / self._rate
        # The first of k that are missing waits for k - 1 gaps, the next for k - 2 ...
        gathering = self._waiting * idle + missing * (missing - 1) / 2 / self._rate
        cost = share @ (gathering + self._cost[begun])
        return float(cost / (share @ (idle + self._seconds[begun])) / self._rate)

    def _stationary(self, begun: Counts) -> Times:
        """How often each number is found at the end of a batch that begins with `begun` jobs."""
        step = self._next[begun]
        balance = np.vstack([(step.T - np.eye(len(step)))[1:], np.ones(len(step))])
        right = np.zeros(len(step))
        right[-1] = 1.0
        return np.asarray(np.linalg.solve(balance, right), np.float64)


def _transitions(left: Counts, arriving: Times) -> Times:
    """Rows: probabilities of the number found after a batch that leaves `left` jobs behind."""
    states = len(left)
    come = np.arange(states) - left[:, np.newaxis]
    found = poisson.pmf(come, arriving[:, np.newaxis])
    found[0] = found[1]  # nobody is served from nothing; the limit is 1 at least
    found[:, -1] += np.maximum(0.0, 1.0 - found.sum(axis=1))
    return np.asarray(found)
