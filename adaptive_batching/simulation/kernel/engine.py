"""Drives the production scheduler through virtual time: a heap and a clock.

The rules are those of the live driver (see `driver`). A batch released at t that takes d ends at
t + d, to the last bit.
"""

from collections.abc import Hashable, Iterable, Sequence
from itertools import accumulate
from math import inf, nextafter

from adaptive_batching.core import Job, Scheduler
from adaptive_batching.errors import PolicyError, Refused
from adaptive_batching.simulation.clients.closed_loop import ClosedLoop
from adaptive_batching.simulation.clients.retries import Retries, RetryingClients
from adaptive_batching.simulation.clients.tenants import Claim
from adaptive_batching.simulation.kernel.collection import collecting_rarely
from adaptive_batching.simulation.kernel.driver import Loop, SimulatedDriver
from adaptive_batching.simulation.kernel.event_queue import EventQueue
from adaptive_batching.simulation.kernel.fleet import CHOICES, ONE_DISPATCHER, Choose, Fleet
from adaptive_batching.simulation.kernel.history import Backdated, Collector, History
from adaptive_batching.simulation.kernel.pool import Pool, SharedPool, of_each
from adaptive_batching.simulation.servers.servers import Service
from adaptive_batching.simulation.traffic.arrival_stream import ArrivalStream


def simulate(
    arrivals: Iterable[float] | ClosedLoop,
    scheduler: Scheduler,
    service: Service | Sequence[Service],
    *,
    sizes: Iterable[int] | None = None,
    keys: Iterable[Hashable] | None = None,
    max_latencies: Iterable[float] | None = None,
    claims: Iterable[Claim] | None = None,
    costs: Iterable[float] | None = None,
    max_latency: float | None = None,
    timer_resolution: float = 0.0,
    loop_delay: float = 0.0,
    retries: Retries | None = None,
    seed: int = 0,
) -> History:
    """Let jobs arrive and record what becomes of them and of their batches.

    Args:
        arrivals: When each job arrives (seconds), in order of time; or users who send again when
            they are answered.
        scheduler: Decides, and says how many workers there are; a fresh one for each simulation.
        service: How long a batch takes, on any worker or, if they differ, on each.
        sizes: Items that each job brings; 1 each if left out.
        keys: Batch key of each job; none if left out.
        max_latencies: Seconds from each job's arrival to its deadline; NaN for `max_latency`.
        claims: The tenant and the priority of each job; jobs have none if left out.
        costs: What the items of each job cost (`Job.cost`); nothing if left out. What they are to
            the scheduler its `Limits.costs` says, and to a service `Server.costs`.
        max_latency: Seconds from each job's arrival to its deadline; by default the scheduler's.
        timer_resolution: Wake-ups come at the next multiple of it (seconds), as event loops round
            them; 0 for a perfect timer.
        loop_delay: How much later than it happens everything is noticed (seconds): arrivals, ends
            of batches, wake-ups. Latencies count from the arrival all the same.
        retries: What clients do who are refused, or answered too late; nothing if left out. A
            record is of all attempts at a request together: from the first arrival to the last
            answer, with the deadline of the last attempt.
        seed: Of the clients' backoff.

    Raises:
        ValueError: The arrivals are not in order, a number isn't finite or the lengths differ.
        PolicyError: The policy decided something impossible, or holds jobs for ever.
    """
    history = History()
    drive(
        ArrivalStream(arrivals, sizes, keys, max_latencies, claims, costs),
        [scheduler],
        service,
        history,
        max_latency=max_latency,
        timer_resolution=timer_resolution,
        loop_delay=loop_delay,
        retries=retries,
        seed=seed,
    )
    return history


def drive(
    feed: ArrivalStream,
    schedulers: Sequence[Scheduler],
    service: Service | Sequence[Service],
    collector: Collector,
    *,
    fleet: Fleet = ONE_DISPATCHER,
    max_latency: float | None = None,
    timer_resolution: float = 0.0,
    loop_delay: float = 0.0,
    retries: Retries | None = None,
    seed: int = 0,
) -> int:
    """Like `simulate`, but keep nothing: a collector is told what happens.

    With a feed that reads as it goes, any number of jobs takes the memory of those that wait.

    Args:
        feed: Where jobs come from.
        schedulers: One for each dispatcher, as `Fleet.schedulers` makes them.
        service: How long a batch takes, on any worker or, if they differ, on each.
        collector: Is told what happens.
        fleet: How several dispatchers stand to each other.
        max_latency: Seconds from each job's arrival to its deadline; by default the schedulers'.
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
    shares = [len(scheduler.permits.workers) for scheduler in schedulers]
    services = of_each(service, shares[0] if fleet.shared else sum(shares))
    pool = (SharedPool if fleet.shared else Pool)(services, events)
    firsts = [0] * len(shares) if fleet.shared else accumulate(shares[:-1], initial=0)
    patience = schedulers[0].limits.max_latency if max_latency is None else max_latency
    clients = (
        None if retries is None else RetryingClients(retries, events, patience, loop_delay, seed)
    )
    drivers = [
        SimulatedDriver(scheduler, pool, feed, told, loop, first, clients)
        for scheduler, first in zip(schedulers, firsts, strict=True)
    ]
    if isinstance(pool, SharedPool):
        pool.owners.extend(drivers)
    choose = CHOICES[fleet.balance](drivers, seed)
    if clients is not None:
        clients.send = lambda job: choose().admit(job)
    with collecting_rarely:
        if len(drivers) == 1 and not fleet.shared:
            _Run(feed, events, drivers[0], patience).to_the_end()
        else:
            _run_fleet(feed, events, drivers, choose, patience)
    for scheduler in schedulers:
        if scheduler.items:
            msg = f"expected a decision for the {scheduler.items} items left, got a Hold for ever"
            raise PolicyError(msg)
    return 0 if clients is None else clients.sent_again


def _run_fleet(
    feed: ArrivalStream,
    events: EventQueue,
    drivers: Sequence[SimulatedDriver],
    choose: Choose,
    patience: float,
) -> None:
    """Step from instant to instant; only a dispatcher that has heard of something decides."""
    delay = drivers[0].loop.delay
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


class _Run:
    """One simulation of one dispatcher under way."""

    def __init__(
        self, feed: ArrivalStream, events: EventQueue, driver: SimulatedDriver, patience: float
    ) -> None:
        self._feed = feed
        self._events = events
        self._driver = driver
        self._patience = patience

    def to_the_end(self) -> None:
        """Step from instant to instant until nothing is left to happen."""
        feed, events, driver = self._feed, self._events, self._driver
        while (now := min(feed.times[feed.come], events.next, driver.wake)) < inf:
            if events.next <= now:
                events.happen(now)
            if feed.times[feed.come] <= now:
                self._admit(nextafter(now, inf))
            driver.decide(now)
            if driver.busy:
                self._admit(min(events.next, driver.until))

    def _admit(self, before: float) -> None:
        """Submit all that arrives before that instant.

        Ahead of the clock only while no worker is idle: then all that `next` could do is to expire
        a job, and no job is admitted beyond the earliest deadline.
        """
        feed, driver, events = self._feed, self._driver, self._events
        if feed.plain and not (driver.loop.delay or driver.deserted):
            self._admit_plain(before)
            return
        while feed.next < before:
            driver.admit(feed.take(self._patience, driver.loop.delay))
            before = min(before, driver.until, events.next)

    def _admit_plain(self, before: float) -> None:
        """Run jobs that are no more than a time and a size: the simulator's hot path."""
        feed, driver, events = self._feed, self._driver, self._events
        times, sizes, patience = feed.times, feed.sizes, self._patience
        submit = driver.scheduler.submit
        first = True  # its deadline is the earliest of them
        index = feed.come
        while True:
            while (now := times[index]) < before:
                job = Job(now, sizes[index], now + patience)
                index += 1
                try:
                    submit(job)
                except Refused as refused:
                    feed.come = index
                    driver.refused(job, refused)
                    before = min(before, events.next)  # when its client may come again
                    continue
                if first:
                    first = False
                    if job.deadline < driver.until:
                        driver.arm(job.deadline)
                        before = min(before, driver.until)
            feed.come = index
            if now < inf or not index:
                return
            more = feed.refill()
            index = 0
            if not more:
                return
            if not feed.plain:
                self._admit(before)
                return
