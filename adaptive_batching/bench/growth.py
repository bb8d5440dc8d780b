"""What a request costs the scheduler, however much already waits."""

from collections.abc import Callable
from functools import partial
from statistics import median
from time import perf_counter

from adaptive_batching.bench.harness.report import Report, Row, Verdict
from adaptive_batching.core import (
    Batch,
    Costs,
    Fairness,
    Job,
    Limits,
    Outcome,
    Priority,
    Scheduler,
    TenantJob,
    make_policy,
)
from adaptive_batching.errors import Overloaded

_PATIENCE = 1000.0  # seconds
_HASTE = 1e-3  # seconds: no batch is as short
_AGEING = 1.0  # seconds
_TENANTS = 8  # where these are not what grows
_TICK = 1e-3  # seconds between two operations
_MOST = 5.0  # times as long as beside ten; a logarithm, and a cache that no longer holds it all

Make = Callable[[int, float], Job]
"""The nth job, and when it comes (seconds)."""


def _alike(_number: int, now: float) -> Job:
    return Job(now, 1, now + _PATIENCE)


def _own_deadlines(number: int, now: float) -> Job:
    return Job(now, 1, now + _PATIENCE + number * 7919 % 10_007 / 100)


def _keys(number: int, now: float) -> Job:
    return Job(now, 1, now + _PATIENCE, number)


def _tenants(number: int, now: float) -> Job:
    return TenantJob(now, 1, now + _PATIENCE, tenant=number)


def _keys_and_tenants(number: int, now: float) -> Job:
    return TenantJob(now, 1, now + _PATIENCE, number, tenant=number)


def _keys_of_one(number: int, now: float) -> Job:
    return TenantJob(now, 1, now + _PATIENCE, number, tenant="one")


def _aged(_number: int, now: float) -> Job:
    priority = Priority.HIGH if now > _AGEING else Priority.NORMAL
    return TenantJob(now, 1, now + _PATIENCE, tenant="one", priority=priority)


def _cost(number: int) -> float:
    """What the nth job costs: anything from 1 to 1,024, each doubling as likely."""
    return float(2 ** (number * 7919 % 10_007 / 1000))


def _costs(number: int, now: float) -> Job:
    return Job(now, 1, now + _PATIENCE, cost=_cost(number))


def _costs_and_deadlines(number: int, now: float) -> Job:
    job = _own_deadlines(number, now)
    job.cost = _cost(number)
    return job


def _costs_and_tenants(number: int, now: float) -> Job:
    return TenantJob(now, 1, now + _PATIENCE, cost=_cost(number), tenant=number % _TENANTS)


CROWDS: dict[str, Make] = {
    "jobs, one max_latency": _alike,
    "jobs, own deadlines": _own_deadlines,
    "batch keys": _keys,
    "tenants": _tenants,
    "batch keys of a tenant each": _keys_and_tenants,
    "batch keys of one tenant": _keys_of_one,
    "aged jobs before high priority": _aged,
    "jobs that cost differently": _costs,
    "costs, own deadlines": _costs_and_deadlines,
    "costs, tenants": _costs_and_tenants,
}


class Crowd:
    """So many jobs that wait for one busy worker, with `cork`; each operation leaves as many.

    Args:
        make: Makes them.
        number: Of them.
    """

    def __init__(self, make: Make, number: int) -> None:
        self._make = make
        self._number = number
        self._next = 0
        self._now = 0.0
        self._submitted: Job | None = None
        first = make(0, 0.0)
        fairness = Fairness(ageing=_AGEING) if isinstance(first, TenantJob) else None
        costs = Costs(padded=True) if first.cost else None
        limits = Limits(8, _PATIENCE, max_queue=10**9, costs=costs)
        self._scheduler = Scheduler(make_policy("cork"), limits, fairness=fairness)
        for size in (1, 4, 8) * 10:
            self._scheduler.latency.observe(size, 5e-3 + 5e-5 * size, 100.0 * size)
        self._come()
        self._running = self._left()
        for _ in range(number):
            self._come()
        self._now = 2 * _AGEING

    def submit(self) -> Callable[[], object]:
        """What lets one more wait; it is to be called once."""
        if self._submitted is not None:
            self._scheduler.cancel(self._submitted)
        job = self._submitted = self._made()
        return lambda: self._scheduler.submit(job)

    def cancel(self) -> Callable[[], object]:
        """What takes one out that has come last."""
        job = self._come()
        return lambda: self._scheduler.cancel(job)

    def refusal(self) -> Callable[[], object]:
        """What turns one away at the door."""
        job = self._made()
        job.deadline = job.arrived + _HASTE
        return lambda: self._refuse(job)

    def dispatch(self) -> Callable[[], object]:
        """What lets a batch leave when the one before it has ended."""
        while self._scheduler.items < self._number:
            self._come()
        self._now += _TICK
        return self._leave

    def _leave(self) -> None:
        self._scheduler.finish(self._running, Outcome.FAILED, self._now)
        self._running = self._left()

    def _refuse(self, job: Job) -> None:
        try:
            self._scheduler.submit(job)
        except Overloaded:
            return
        raise AssertionError("a job that can't be in time was let in")

    def _left(self) -> Batch:
        step = self._scheduler.next(self._now)
        assert isinstance(step, Batch)
        return step

    def _come(self) -> Job:
        job = self._made()
        self._scheduler.submit(job)
        return job

    def _made(self) -> Job:
        self._next += 1
        return self._make(self._next % max(1, self._number), self._now)


OPERATIONS: dict[str, Callable[[Crowd], Callable[[], object]]] = {
    "submit": Crowd.submit,
    "dispatch": Crowd.dispatch,
    "refusal": Crowd.refusal,
    "cancel": Crowd.cancel,
}


async def measure(*, quick: bool) -> Report:
    """Time the operations beside crowds of growing size."""
    numbers, times = ((10, 1000), 20) if quick else ((10, 1000, 100_000), 200)
    rows: list[Row] = []
    verdicts = []
    for name, make in CROWDS.items():
        taken: dict[int, dict[str, float]] = {}
        for number in numbers:
            crowd = Crowd(make, number)
            taken[number] = {
                each: _microseconds(partial(get, crowd), times) for each, get in OPERATIONS.items()
            }
            row: Row = {"what waits": name, "how many": number}
            rows.append({**row, **{f"{each} (µs)": taken[number][each] for each in OPERATIONS}})
        worst = max(taken[numbers[-1]][each] / taken[numbers[0]][each] for each in OPERATIONS)
        verdicts.append(Verdict(name, worst, "at most", _MOST, f"times beside {numbers[0]}"))
    return Report("growth: one operation of the scheduler, in the median", rows, verdicts)


def _microseconds(get: Callable[[], Callable[[], object]], times: int) -> float:
    taken = []
    for _ in range(times):
        operation = get()
        begun = perf_counter()
        operation()
        taken.append(perf_counter() - begun)
    return median(taken) * 1e6
