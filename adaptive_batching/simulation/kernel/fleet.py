"""Several dispatchers on one clock: replicas behind a balancer, or many in front of one pool.

A balancer sees requests and answers only. What a dispatcher refuses is refused; the next one
is asked only if clients send again.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from adaptive_batching.core import Fairness, Limits, PolicyLike, Scheduler, make_policy
from adaptive_batching.simulation.kernel.driver import SimulatedDriver

Balance = Literal["in-turn", "random", "least"]
"""Which dispatcher gets the next request: in turn, at random, or with the fewest under way."""

Choose = Callable[[], SimulatedDriver]
"""Says which dispatcher gets the next request."""

_BLOCK = 4096  # lots at a time
_STREAM = 5  # arrivals and workers made with the same seed must not share our random numbers


@dataclass(frozen=True, slots=True)
class Fleet:
    """Several dispatchers.

    Attributes:
        dispatchers: How many.
        balance: Which dispatcher gets the next request.
        shared: Whether all of them send their batches to the same workers, and each believes to
            have all of them; batches that find no worker free wait there in the order of release.
            Otherwise the workers are dealt out, as evenly as can be.
    """

    dispatchers: int = 1
    balance: Balance = "in-turn"
    shared: bool = False

    def __post_init__(self) -> None:
        if self.dispatchers < 1:
            raise ValueError(f"dispatchers: expected 1 or more, got {self.dispatchers}")

    def __str__(self) -> str:
        return f"{self.dispatchers} dispatchers{', shared workers' * self.shared}, {self.balance}"

    def schedulers(
        self,
        policy: PolicyLike,
        limits: Limits,
        workers: int,
        *,
        idempotent: bool = False,
        fairness: Fairness | None = None,
        timer_resolution: float = 0.0,
    ) -> list[Scheduler]:
        """A fresh one for each dispatcher, with the workers that it believes to have.

        Args:
            policy: Its name, its class or factory; for a single dispatcher a fresh one will do.
            limits: Of each dispatcher.
            workers: All of them together.
            idempotent: Whether members of a batch that failed run again.
            fairness: How tenants share the workers of each; None if jobs have no tenants.
            timer_resolution: Of the wake-ups (seconds).

        Raises:
            ValueError: There are fewer workers than dispatchers, or there is one policy for all.
        """
        number = self.dispatchers
        if number > 1 and not (isinstance(policy, str) or callable(policy)):
            msg = "policy: expected a name or a class, so that each dispatcher has its own"
            raise ValueError(f"{msg}, got {policy!r}")
        if not self.shared and workers < number:
            msg = f"workers: expected at least one for each of {number} dispatchers"
            raise ValueError(f"{msg}, got {workers}")
        shares = [workers // number + (each < workers % number) for each in range(number)]
        believed = [workers] * number if self.shared else shares
        return [
            Scheduler(
                make_policy(policy),
                limits,
                share,
                idempotent=idempotent,
                fairness=fairness,
                timer_resolution=timer_resolution,
            )
            for share in believed
        ]


ONE_DISPATCHER = Fleet()


def _in_turn(drivers: Sequence[SimulatedDriver], seed: int) -> Choose:
    line = deque(drivers)

    def choose() -> SimulatedDriver:
        line.rotate(-1)
        return line[-1]

    return choose


def _at_random(drivers: Sequence[SimulatedDriver], seed: int) -> Choose:
    rng = np.random.default_rng([_STREAM, seed])
    lots: list[int] = []

    def choose() -> SimulatedDriver:
        if not lots:
            lots.extend(rng.integers(len(drivers), size=_BLOCK).tolist())
        return drivers[lots.pop()]

    return choose


def _least(drivers: Sequence[SimulatedDriver], seed: int) -> Choose:
    line = deque(drivers)

    def choose() -> SimulatedDriver:
        line.rotate(-1)  # equals take turns
        return min(line, key=lambda driver: driver.outstanding)

    return choose


CHOICES: dict[Balance, Callable[[Sequence[SimulatedDriver], int], Choose]] = {
    "in-turn": _in_turn,
    "random": _at_random,
    "least": _least,
}
