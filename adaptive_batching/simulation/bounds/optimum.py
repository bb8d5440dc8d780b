"""The least mean latency that any policy reaches with one worker and Poisson arrivals.

A policy that knows no arrival beforehand decides by the number of jobs that wait while the worker
is idle: wait for another one, or serve so many. That is a semi-Markov decision process; Howard's
policy iteration finds its optimum in a few steps. What it minimises is the mean number of jobs in
the system, and that divided by the rate is the mean latency (Little).

A control limit, "serve all you can from n jobs on" (Deb and Serfozo 1973), is the optimum only if
items cost little: where the first of a batch wait long for the last, smaller batches are better.
"""

from dataclasses import dataclass
from math import ceil

import numpy as np
import numpy.typing as npt

from adaptive_batching.simulation.traffic.arrivals import Times

Sizes = npt.NDArray[np.int64]

_TAIL = 1e-12  # probability beyond the states that are kept
_MOST_STATES = 1000  # more are needed only within 2 % of the capacity, where the mean says little
_ROUNDING = 1e-10  # of the mean number in the system; what gains less is no better decision


@dataclass(frozen=True, slots=True)
class Optimum:
    """What the best policy does and what it brings.

    Attributes:
        jobs: It serves from so many on; 1 never waits.
        mean_latency: From arrival to answer (seconds).
    """

    jobs: int
    mean_latency: float


def least_mean_latency(rate: float, durations: Times) -> Optimum | None:
    """The optimum, or None if the load comes too near to what the worker can do.

    Args:
        rate: Arrivals a second.
        durations: Seconds for a batch of 1, 2, ... jobs, as many as a batch may hold.
    """
    batch = len(durations)
    per_batch = rate * float(durations[-1])
    if per_batch >= batch:
        return None
    spread = -np.log(_TAIL) * per_batch / (2 * (batch - per_batch))
    states = 2 * batch + 40 + ceil(spread + 8 * per_batch**0.5)
    return _Decisions(rate, durations, states).optimum() if states <= _MOST_STATES else None


class _Decisions:
    """What may be decided with so many jobs waiting and the worker idle.

    A decision is the size of the batch to serve; 0 waits for one job more.

    Args:
        rate: Arrivals a second.
        durations: Seconds by jobs in a batch.
        states: Numbers of waiting jobs that are told apart; more count as that many.
    """

    def __init__(self, rate: float, durations: Times, states: int) -> None:
        sizes, waiting = np.arange(len(durations) + 1), np.arange(states)
        self._rate = rate
        self._waiting = waiting
        self._seconds = np.concatenate([[1 / rate], durations])
        # Jobs that wait stay for the whole batch, jobs that come for half of it on average.
        self._cost = np.outer(self._seconds, waiting)
        self._cost[1:] += rate * durations[:, np.newaxis] ** 2 / 2
        self._cost[sizes[:, np.newaxis] > waiting] = np.inf
        self._cost[0, -1] = np.inf  # nothing beyond the last state is told apart
        self._arriving = _poisson(waiting, rate * durations[:, np.newaxis])

    def optimum(self) -> Optimum:
        """Begin with the policy that serves all it can at once, and better it while that works."""
        chosen = np.minimum(self._waiting, len(self._arriving))
        while True:
            in_system, value = self._worth(chosen)
            worth = self._cost - in_system * self._seconds[:, np.newaxis] + self._following(value)
            slack = _ROUNDING * in_system * self._seconds[-1]
            gains = worth.min(axis=0) < worth[chosen, self._waiting] - slack
            if not gains.any():
                return Optimum(int(np.argmax(chosen > 0)), in_system / self._rate)
            chosen = np.where(gains, worth.argmin(axis=0), chosen)

    def _worth(self, chosen: Sizes) -> tuple[float, Times]:
        """Mean number in the system under a policy, and what each state costs beside state 0."""
        balance = np.eye(len(chosen)) - self._transitions(chosen)
        balance[:, 0] = self._seconds[chosen]  # state 0 is worth 0; its place is the mean's
        value = np.linalg.solve(balance, self._cost[chosen, self._waiting]).astype(np.float64)
        in_system = float(value[0])
        value[0] = 0.0
        return in_system, value

    def _transitions(self, chosen: Sizes) -> Times:
        """Rows: probabilities of the number that is found at the next decision."""
        come = self._waiting - (self._waiting - chosen)[:, np.newaxis]
        found: Times = self._arriving[chosen[:, np.newaxis] - 1, np.maximum(come, 0)] * (come >= 0)
        waits = np.flatnonzero(chosen == 0)
        found[waits] = 0.0
        found[waits, waits + 1] = 1.0
        found[:, -1] += np.maximum(0.0, 1.0 - found.sum(axis=1))
        return found

    def _following(self, value: Times) -> Times:
        """What the next state is worth on average, by decision and jobs that wait."""
        following = np.zeros_like(self._cost)
        following[0, :-1] = value[1:]
        padded = np.concatenate([value, np.full(len(value) - 1, value[-1])])
        for size, arriving in enumerate(self._arriving, 1):
            beyond = max(0.0, 1.0 - float(arriving.sum())) * value[-1]
            left = np.correlate(padded, arriving, "valid") + beyond
            following[size, size:] = left[: len(value) - size]
        return following


def _poisson(numbers: Sizes, mean: Times) -> Times:
    """Probabilities of so many arrivals; `scipy.stats`, which has them, is slow to import.

    So is this, for a server that only reads a model file: half a second.
    """
    from scipy.special import gammaln, xlogy  # noqa: PLC0415

    probabilities: Times = np.exp(xlogy(numbers, mean) - gammaln(numbers + 1) - mean)
    return probabilities
