"""The live dispatcher and the simulator take the same decisions, to the last bit (P13).

What is shown in the simulator would otherwise say nothing about what runs in production.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, zip_longest
from math import inf, isnan, nan
from operator import itemgetter
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from adaptive_batching.core import (
    Batch,
    BatchRecord,
    Costs,
    Fairness,
    Job,
    JobOutcome,
    JobRecord,
    Limits,
    Outcome,
    Priority,
    Scheduler,
    make_policy,
)
from adaptive_batching.dispatcher import Dispatcher
from adaptive_batching.errors import (
    DeadlineExceeded,
    Quarantined,
    QueueFull,
    Refused,
    WorkerLost,
)
from adaptive_batching.simulation import History, Padded, Server, UnevenServers, simulate
from adaptive_batching.simulation.clients.tenants import NOBODY, Claim
from adaptive_batching.simulation.servers.conditions import Crashes, Failures
from adaptive_batching.simulation.servers.costs import CostSeconds
from adaptive_batching.simulation.servers.runs import Situated
from adaptive_batching.simulation.servers.servers import Service
from adaptive_batching.workers.interface import Health, Workers
from adaptive_batching.workers.local import TaskWorkers
from tests.virtual_time import run_virtually

JOBS = 250
RESTART = 0.05  # seconds

limits = st.builds(
    Limits,
    max_batch_size=st.sampled_from([4, 8, 32, 64]),
    max_latency=st.sampled_from([inf, 0.012, 0.025, 0.1]),
    max_queue=st.sampled_from([50, 65_536]),
    costs=st.sampled_from(
        [None, None, Costs(), Costs(padded=True), Costs(padded=True, max_batch_cost=4_000.0)]
    ),
    sizes=st.sampled_from([(), (), (1, 4, 16, 64), (8, 32)]),
)
PADDED = Limits(64, 0.1, costs=Costs(padded=True, max_batch_cost=10_000.0))
SIZED = Limits(64, 0.1, sizes=(8, 16, 32, 64))
COSTLY_SIZED = replace(SIZED, costs=PADDED.costs)
policies = st.sampled_from(
    [
        "cork", "greedy", "window:2ms", "window:0ms", "triton:4,16/2ms", "aimd", "aimd:4", "nexus",
        "deferred", "bentoml", "bentoml:0", "greedy+drop",
    ]
)  # fmt: skip


@dataclass(frozen=True)
class Traffic:
    """Random arrivals, the same for the same seed."""

    seed: int
    rate_exponent: float
    clump: int
    largest: int
    keyed: int = 0
    hurried: bool = False
    tenants: int = 0
    spread: float = 0.0

    def __str__(self) -> str:
        return f"{JOBS} jobs at {10**self.rate_exponent:.0f}/s, clumps of up to {self.clump}"

    def arrivals(self, begin: float = 0.0) -> tuple[list[float], list[int]]:
        """When each job comes, and how many items it brings."""
        rng = random.Random(self.seed)
        now, times = begin + 1e-3, []
        while len(times) < JOBS:
            now += rng.expovariate(10**self.rate_exponent)
            times += [now] * rng.randint(1, self.clump)
        return times, [rng.randint(1, self.largest) for _ in times]

    def keys(self) -> list[int | None]:
        """The batch key of each."""
        rng = random.Random(self.seed + 1)
        return [rng.randrange(self.keyed) if self.keyed else None for _ in range(2 * JOBS)]

    def claims(self) -> list[Claim]:
        """Whose each is, the first one's far more often, and whether it is urgent."""
        if not self.tenants:
            return [NOBODY] * 2 * JOBS
        rng = random.Random(self.seed + 3)
        return [
            Claim(min(rng.randrange(9), self.tenants), rng.choice(list(Priority)))
            for _ in range(2 * JOBS)
        ]

    def costs(self) -> list[float]:
        """What the items of each cost, around 100; nothing without a spread."""
        rng = random.Random(self.seed + 4)
        spread = self.spread
        return [100 * rng.lognormvariate(0, spread) * bool(spread) for _ in range(2 * JOBS)]

    @property
    def seconds(self) -> CostSeconds | None:
        """What those costs add to a batch."""
        return CostSeconds(2e-6, padded=True) if self.spread else None

    @property
    def fairness(self) -> Fairness | None:
        """How they share the workers."""
        return Fairness({0: 2.0}, 5e-3) if self.tenants else None

    def patience(self) -> list[float]:
        """The max_latency of each (seconds), NaN for the limit's."""
        rng = random.Random(self.seed + 2)
        own = [nan, 0.011, 0.04] if self.hurried else [nan]
        return [rng.choice(own) for _ in range(2 * JOBS)]


traffic = st.builds(
    Traffic,
    seed=st.integers(0, 2**32),
    rate_exponent=st.floats(1, 4.3),  # 10 to 20,000 a second
    clump=st.sampled_from([1, 1, 3, 80]),
    largest=st.sampled_from([1, 1, 3, 5]),
    keyed=st.sampled_from([0, 0, 3]),
    hurried=st.sampled_from([False, False, True]),
    tenants=st.sampled_from([0, 0, 1, 3]),
    spread=st.sampled_from([0.0, 0.4, 1.2]),
)


def served(traffic: Traffic, limits: Limits, jitter: float, slowness: float = 1) -> Server:
    """A worker that pads batches to the allowed sizes."""
    line = Server(5e-3 * slowness, 5e-5 * slowness, jitter, costs=traffic.seconds)
    return replace(line, curve=Padded(line.mean, limits.sizes)) if limits.sizes else line


slownesses = st.sampled_from([(1,), (1, 1), (1, 1, 1, 1), (1, 4), (1, 1, 4), (1, 1, 2, 4)])


class Uneven(TaskWorkers):
    """Each worker takes its own time; an item is a job, with the items that it stands for."""

    def __init__(self, services: Sequence[Service]) -> None:
        super().__init__(_never_called, len(services))
        self._services = services

    async def run(self, items: list[Job], worker: int, /) -> list[Job]:  # type: ignore[override]
        service, size = self._services[worker], sum(item.size for item in items)
        if isinstance(service, Situated):
            now = asyncio.get_running_loop().time()
            await asyncio.sleep(service.run(size, now, 0, worker, None, items).seconds)
        else:
            await asyncio.sleep(service(size))
        return items


async def _never_called(items: list[Job]) -> list[Job]:
    raise NotImplementedError


class Broken(Exception):
    """What batches raise."""


class Failing(TaskWorkers):
    """Some batches raise, and over some their worker dies; one that died comes back."""

    def __init__(self, service: Situated, count: int) -> None:
        super().__init__(_never_called, count)
        self._service = service
        self._living = set(range(count))
        self._on_change: Callable[[], None] = lambda: None

    @property
    def health(self) -> Health:
        return Health(frozenset(self._living), self._count)

    async def start(self, on_change: Callable[[], None]) -> None:
        await asyncio.sleep(RESTART)
        self._on_change = on_change
        on_change()

    async def run(self, items: list[Job], worker: int, /) -> list[Job]:  # type: ignore[override]
        loop = asyncio.get_running_loop()
        size = sum(item.size for item in items)
        run = self._service.run(size, loop.time(), 0, worker, None, items)
        await asyncio.sleep(run.seconds)
        if run.restart is not None:
            self._living.remove(worker)
            self._on_change()
            loop.call_later(run.restart, self._return, worker)
            raise WorkerLost
        if run.outcome is Outcome.FAILED:
            raise Broken
        return items

    def _return(self, worker: int) -> None:
        self._living.add(worker)
        self._on_change()


class Recorder:
    """Keeps the records of the batches that ended."""

    def __init__(self) -> None:
        self.records: list[BatchRecord] = []

    def batch_ended(self, batch: Batch, record: BatchRecord) -> None:
        self.records.append(record)


def live(
    traffic: Traffic,
    limits: Limits,
    policy: str,
    workers: Workers,
    *,
    begin: float = 0.0,
    idempotent: bool = False,
) -> History:
    """What the dispatcher does with that traffic."""
    history, recorder = History(), Recorder()
    times, sizes = traffic.arrivals(begin)
    requests = zip(
        times,
        sizes,
        traffic.keys(),
        traffic.patience(),
        traffic.claims(),
        traffic.costs(),
        strict=False,
    )

    async def call(
        dispatcher: Dispatcher[Job, Job],
        size: int,
        key: int | None,
        patience: float,
        claim: Claim,
        cost: float,
    ) -> None:
        loop = asyncio.get_running_loop()
        arrived = loop.time()
        own = None if isnan(patience) else patience
        deadline = arrived + (limits.max_latency if own is None else own)
        outcome = JobOutcome.DONE
        item = Job(arrived, size, cost=cost)
        try:
            assert await dispatcher.submit(item, own, key, size, *claim, cost) is item
        except QueueFull:
            outcome = JobOutcome.QUEUE_FULL
        except Refused:
            outcome = JobOutcome.SHED
        except DeadlineExceeded:
            outcome = JobOutcome.EXPIRED
        except (Broken, WorkerLost, Quarantined):
            outcome = JobOutcome.FAILED
        history.jobs.append(
            JobRecord(arrived, loop.time(), size, outcome, deadline, key, claim.tenant, cost)
        )

    async def main() -> None:
        loop = asyncio.get_running_loop()
        calls: list[asyncio.Task[None]] = []
        async with Dispatcher(
            workers,
            limits,
            policy=policy,
            idempotent=idempotent,
            clock=loop.time,
            observers=[recorder],
            fairness=traffic.fairness,
        ) as dispatcher:

            def arrive(together: list[list[Any]]) -> None:
                calls.extend(loop.create_task(call(dispatcher, *each)) for each in together)

            for time, together in groupby(requests, itemgetter(0)):
                loop.call_at(time, arrive, [each for _, *each in together])
            await asyncio.sleep(times[-1] + 1e-3)
            await asyncio.gather(*calls)

    run_virtually(main())
    history.batches = recorder.records
    return history


def first_difference(name: str, ours: list[object], theirs: list[object]) -> str:
    """Empty if there is none."""
    for index, (mine, other) in enumerate(zip_longest(ours, theirs)):
        if mine != other:
            return f"{name} {index} differs\n  live:      {mine}\n  simulated: {other}"
    return ""


# Without jitter, batches may end in one instant, in an order that is the event loop's own affair.
@pytest.mark.no_cover
@settings(max_examples=150)
@given(traffic, limits, policies, slownesses, st.sampled_from([1e-6, 0.1]))
@example(Traffic(1, 3.5, 1, 1), Limits(64, 0.012), "cork", (1, 1, 1, 1), 1e-6)
@example(Traffic(2, 4.0, 80, 5), Limits(8, 0.025, 50), "cork", (1, 1), 0.1)
@example(Traffic(5183624, 3.0, 1, 5, spread=1.2), Limits(32, 0.012, 50), "cork", (1, 1), 1e-6)
@example(Traffic(3, 3.5, 3, 3, keyed=3, hurried=True), Limits(8, 0.025), "cork", (1, 1), 0.1)
@example(Traffic(4, 3.3, 1, 1), Limits(8, 0.1), "cork", (1, 1, 4), 0.1)
@example(Traffic(0, 3.5, 1, 1), Limits(4, 0.012, 50), "cork", (1, 1, 2, 4), 1e-6)
@example(Traffic(5, 3.9, 3, 3, keyed=3, tenants=3), Limits(8, 0.1, 50), "cork", (1, 1), 0.1)
@example(Traffic(6, 3.5, 3, 1, spread=1.2), PADDED, "cork", (1, 1, 4), 0.1)
@example(Traffic(7, 3.9, 3, 3, keyed=3, tenants=3, spread=0.8), PADDED, "cork", (1, 1), 0.1)
@example(Traffic(8, 3.7, 3, 3, hurried=True), SIZED, "cork", (1, 1, 4), 0.1)
@example(Traffic(9, 3.9, 80, 5, tenants=3), SIZED, "greedy", (1, 1), 0.1)
@example(Traffic(10, 3.7, 3, 1, spread=0.8), COSTLY_SIZED, "cork", (1, 1), 0.1)
@example(Traffic(11, 3.9, 3, 3, tenants=3, spread=1.2), COSTLY_SIZED, "cork", (1, 1, 4), 0.1)
def test_live_and_simulated_decisions_are_the_same(
    traffic: Traffic, limits: Limits, policy: str, slowness: tuple[int, ...], jitter: float
) -> None:
    """Every batch leaves and ends at the same instant with the same members, for the same reason;
    every job has the same end, except that live callers wait for no late answer.
    """
    times, sizes = traffic.arrivals()
    servers = UnevenServers(tuple(served(traffic, limits, jitter, each) for each in slowness))
    ours = live(traffic, limits, policy, Uneven(servers.service(traffic.seed)))
    theirs = simulate(
        times,
        Scheduler(make_policy(policy), limits, len(slowness), fairness=traffic.fairness),
        servers.service(traffic.seed),
        sizes=sizes,
        keys=traffic.keys(),
        max_latencies=traffic.patience()[: len(times)],
        claims=traffic.claims() if traffic.tenants else None,
        costs=traffic.costs() if traffic.spread else None,
    )
    difference = differences(ours, theirs)
    assert not difference, f"{policy}, workers {slowness}, {limits}, {traffic}: {difference}"


@pytest.mark.no_cover
@settings(max_examples=100)
@given(
    traffic,
    limits,
    st.sampled_from(["cork", "greedy", "window:2ms", "nexus"]),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([0.0, 0.1, 0.5]),
    st.sampled_from([0.0, 0.1, 0.3]),
)
@example(Traffic(1, 3.5, 3, 1), Limits(64), "cork", 2, 0.3, 0.0)
@example(Traffic(2, 3.5, 3, 3), Limits(8, 0.1), "greedy", 1, 0.0, 0.3)
@example(Traffic(4, 3.5, 3, 3, spread=0.8), PADDED, "cork", 2, 0.3, 0.1)
@example(Traffic(5, 3.5, 3, 3), SIZED, "cork", 2, 0.3, 0.1)
@example(Traffic(6, 3.5, 3, 3, spread=0.8), COSTLY_SIZED, "cork", 2, 0.3, 0.1)
@example(
    Traffic(3077, 1.0, 80, 1, keyed=3, hurried=True), Limits(4, max_queue=50), "cork", 2, 0.5, 0.0
)  # who ran again was still counted by the queue that he had left
def test_what_runs_again_is_the_same_live_and_simulated(
    traffic: Traffic, limits: Limits, policy: str, workers: int, failures: float, crashes: float
) -> None:
    """Batches that raise and workers that die: who runs again, with whom, when and where."""
    conditions = (Failures(failures), Crashes(crashes, RESTART))
    server = replace(served(traffic, limits, 0.1), conditions=conditions)
    services = [server.service(traffic.seed) for _ in range(2)]
    assert isinstance(services[0], Situated)
    ours = live(
        traffic, limits, policy, Failing(services[0], workers), begin=RESTART, idempotent=True
    )
    times, sizes = traffic.arrivals(RESTART)
    theirs = simulate(
        times,
        Scheduler(make_policy(policy), limits, workers, idempotent=True, fairness=traffic.fairness),
        services[1],
        sizes=sizes,
        keys=traffic.keys(),
        max_latencies=traffic.patience()[: len(times)],
        claims=traffic.claims() if traffic.tenants else None,
        costs=traffic.costs() if traffic.spread else None,
    )
    difference = differences(ours, theirs)
    assert not difference, f"{policy}, {workers} workers, {limits}, {traffic}: {difference}"


def differences(ours: History, theirs: History) -> str:
    """The first of them; empty if there is none."""
    difference = first_difference(
        "batch", sorted(ours.batches, key=_in_order), sorted(theirs.batches, key=_in_order)
    )
    ends = [_as_told(job) for job in theirs.jobs]
    return difference or first_difference(
        "job", sorted(ours.jobs, key=_in_order), sorted(ends, key=_in_order)
    )


def _as_told(job: JobRecord) -> JobRecord:
    """What a live caller hears: the simulator says how late an answer was, he no longer waits."""
    if job.outcome in {JobOutcome.DONE, JobOutcome.FAILED} and job.finished > job.deadline:
        return job._replace(finished=job.deadline, outcome=JobOutcome.EXPIRED)
    return job


def _in_order(record: BatchRecord | JobRecord) -> tuple[object, ...]:
    if isinstance(record, BatchRecord):
        return (record.finished, record.released, -record.left_waiting)
    return (
        record.finished, record.arrived, record.size, record.outcome.value,
        record.deadline, str(record.key), str(record.tenant), record.cost,
    )  # fmt: skip
