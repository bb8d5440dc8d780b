"""Several dispatchers on one clock: replicas behind a balancer, or many in front of one pool.

A balancer sees requests and answers only. What a dispatcher refuses is refused; nobody asks the
next one, unless clients send again.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import inf
from typing import Literal

import numpy as np

from adaptive_batching.core import Fairness, Limits, PolicyLike, Scheduler, make_policy
from adaptive_batching.simulation.clients.retries import Retries, RetryingClients
from adaptive_batching.simulation.kernel.collection import collecting_rarely
from adaptive_batching.simulation.kernel.driver import Loop, SimulatedDriver
from adaptive_batching.simulation.kernel.engine import expect_nobody_left
from adaptive_batching.simulation.kernel.event_queue import EventQueue
from adaptive_batching.simulation.kernel.history import Backdated, Collector
from adaptive_batching.simulation.kernel.pool import Pool, SharedPool, of_each
from adaptive_batching.simulation.servers.servers import Service
from adaptive_batching.simulation.traffic.arrival_stream import ArrivalStream

Balance = Literal["in-turn", "random", "least"]
"""Who gets the next request: each in turn, anybody, or who has the fewest under way."""

_BLOCK = 4096  # lots at a time
_STREAM = 5  # arrivals and workers made with the same seed must not share our random numbers


@dataclass(frozen=True, slots=True)
class Fleet:
    """Several dispatchers.

    Attributes:
        dispatchers: How many.
        balance: Who gets the next request.
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
    ) -> list[Scheduler]:
        """A fresh one for each dispatcher, with the workers that it believes to have.

        Args:
            policy: Its name, its class or factory; for a single dispatcher a fresh one will do.
            limits: Of each dispatcher.
            workers: All of them together.
            idempotent: Whether members of a batch that failed run again.
            fairness: How tenants share the workers of each; None if nobody asks whose a job is.

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
            Scheduler(make_policy(policy), limits, share, idempotent=idempotent, fairness=fairness)
            for share in believed
        ]


ONE_DISPATCHER = Fleet()


def drive_fleet(
    feed: ArrivalStream,
    schedulers: Sequence[Scheduler],
    service: Service | Sequence[Service],
    collector: Collector,
    *,
    fleet: Fleet,
    timer_resolution: float = 0.0,
    loop_delay: float = 0.0,
    retries: Retries | None = None,
    seed: int = 0,
) -> int:
    """Like `engine.drive`, for several schedulers.

    Args:
        feed: Where jobs come from.
        schedulers: One for each dispatcher, as `Fleet.schedulers` makes them.
        service: How long a batch takes, on any worker or, if they differ, on each.
        collector: Is told what happens.
        fleet: How they stand to each other.
        timer_resolution: Wake-ups come at the next multiple of it (seconds).
        loop_delay: How much later than it happens everything is noticed (seconds).
        retries: What clients do who are refused, or answered too late: their requests go through
            the balancer again, and so to another dispatcher as a rule.
        seed: Of a balancer that draws lots, and of the clients' backoff.

    Returns:
        How many times a request was sent again.

    Raises:
        ValueError: The arrivals are not in order or a number isn't finite.
        PolicyError: A policy decided something impossible, or holds jobs for ever.
    """
    events = EventQueue()
    loop = Loop(timer_resolution, loop_delay)
    told = Backdated(collector) if loop_delay else collector
    shares = [scheduler.permits.capacity for scheduler in schedulers]
    services = of_each(service, shares[0] if fleet.shared else sum(shares))
    pool = (SharedPool if fleet.shared else Pool)(services, events)
    firsts = [0] * len(shares) if fleet.shared else accumulate(shares[:-1], initial=0)
    patience = schedulers[0].limits.max_latency
    clients = (
        None if retries is None else RetryingClients(retries, events, patience, loop_delay, seed)
    )
    drivers = [
        SimulatedDriver(scheduler, pool, feed, told, loop, first, clients)
        for scheduler, first in zip(schedulers, firsts, strict=True)
    ]
    if isinstance(pool, SharedPool):
        pool.owners.extend(drivers)
    choose = _CHOICES[fleet.balance](drivers, seed)
    if clients is not None:
        clients.send = lambda job: choose().admit(job)
    with collecting_rarely:
        _run(feed, events, drivers, choose)
    for scheduler in schedulers:
        expect_nobody_left(scheduler)
    return 0 if clients is None else clients.sent_again


def _run(
    feed: ArrivalStream,
    events: EventQueue,
    drivers: Sequence[SimulatedDriver],
    choose: Callable[[], SimulatedDriver],
) -> None:
    """Step from instant to instant; only who has heard of something decides."""
    patience, delay = drivers[0].scheduler.limits.max_latency, drivers[0].loop.delay
    while True:
        wake = min([driver.wake for driver in drivers])
        if (now := min(feed.next, events.next, wake)) == inf:
            return
        events.happen(now)
        while feed.next <= now:
            choose().admit(feed.take(patience, delay))
        for driver in drivers:
            if driver.alert or driver.wake <= now:
                driver.decide(now)


def _in_turn(drivers: Sequence[SimulatedDriver], seed: int) -> Callable[[], SimulatedDriver]:
    line = deque(drivers)

    def choose() -> SimulatedDriver:
        line.rotate(-1)
        return line[-1]

    return choose


def _at_random(drivers: Sequence[SimulatedDriver], seed: int) -> Callable[[], SimulatedDriver]:
    rng = np.random.default_rng([_STREAM, seed])
    lots: list[int] = []

    def choose() -> SimulatedDriver:
        if not lots:
            lots.extend(rng.integers(len(drivers), size=_BLOCK).tolist())
        return drivers[lots.pop()]

    return choose


def _least(drivers: Sequence[SimulatedDriver], seed: int) -> Callable[[], SimulatedDriver]:
    line = deque(drivers)

    def choose() -> SimulatedDriver:
        line.rotate(-1)  # equals take turns
        return min(line, key=lambda driver: driver.outstanding)

    return choose


_CHOICES = {"in-turn": _in_turn, "random": _at_random, "least": _least}
