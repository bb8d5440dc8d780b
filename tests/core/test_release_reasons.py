"""Why a batch left: every release says so, and it is true."""

from math import inf

import pytest

from adaptive_batching.core import Job, Limits, Outcome, Reason, Scheduler, make_policy
from adaptive_batching.simulation import History, Server, poisson, simulate
from tests.core.steps import released, submit

SERVER = Server(5e-3, 5e-5)
LIMITS = Limits(64, 0.05)


def trained(workers: int) -> Scheduler:
    """Cork, which knows how long the server takes."""
    scheduler = Scheduler(make_policy("cork"), LIMITS, workers)
    for size in [1, 2, 4, 8, 64] * 40:
        scheduler.latency.observe(size, SERVER.service()(size))
    return scheduler


def traffic(policy: str, rate: float = 12_000.0, workers: int = 2) -> History:
    scheduler = Scheduler(make_policy(policy), LIMITS, workers)
    return simulate(poisson(rate, 1.0, seed=1), scheduler, SERVER.service())


def test_a_lone_request_leaves_because_a_worker_is_idle() -> None:
    """With all workers idle there is nothing to wait for."""
    scheduler = trained(workers=2)
    submit(scheduler, 1, 0.0)
    assert released(scheduler.next(0.0)).reason is Reason.IDLE


def test_a_full_batch_leaves_because_it_is_full() -> None:
    """Sixty-four of sixty-four."""
    scheduler = trained(workers=1)
    submit(scheduler, 64, 0.0)
    assert released(scheduler.next(0.0)).reason is Reason.FULL


def test_a_deadline_is_named() -> None:
    """It was held for a worker that would be free soon, and its deadline came first."""
    assert Reason.DEADLINE in {batch.reason for batch in traffic("deferred", 2000.0).batches}


def test_beside_a_busy_worker_the_hold_was_weighed() -> None:
    """One of two workers is busy: holding would gain too little, which isn't idleness."""
    scheduler = trained(workers=2)
    submit(scheduler, 1, 0.0)
    assert released(scheduler.next(0.0)).reason is Reason.IDLE
    submit(scheduler, 1, 5e-3)
    assert released(scheduler.next(5e-3)).reason is Reason.NOT_WORTH_WAITING


def test_closing_is_named() -> None:
    """What waits behind a window leaves when the scheduler drains."""
    scheduler = Scheduler(make_policy("window:1s"), Limits(8, inf))
    submit(scheduler, 1, 0.0)
    scheduler.drain()
    assert released(scheduler.next(0.0)).reason is Reason.DRAIN


def test_a_second_run_is_named() -> None:
    """Members of a batch that failed run again in halves."""
    scheduler = Scheduler(make_policy("greedy"), Limits(8, inf), idempotent=True)
    jobs: list[Job] = submit(scheduler, 4, 0.0)
    batch = released(scheduler.next(0.0))
    scheduler.finish(batch, Outcome.FAILED, 0.1, jobs)
    assert released(scheduler.next(0.1)).reason is Reason.BISECT


@pytest.mark.parametrize(
    ("policy", "reasons"),
    [
        ("cork", {Reason.FULL, Reason.IDLE, Reason.NOT_WORTH_WAITING}),
        ("greedy", {Reason.FULL, Reason.IDLE}),
        ("window:2ms", {Reason.FULL, Reason.TIMEOUT}),
        ("triton:8,16/2ms", {Reason.FULL, Reason.PREFERRED, Reason.TIMEOUT}),
        ("triton:8,16", {Reason.FULL, Reason.PREFERRED, Reason.IDLE}),
        ("bentoml", {Reason.FULL, Reason.NOT_WORTH_WAITING, Reason.PREFERRED, Reason.TIMEOUT}),
    ],
)
def test_each_policy_names_its_own_reasons(policy: str, reasons: set[Reason]) -> None:
    """Under traffic between little and much, it gives these and, but for a probe, no others."""
    seen = {b.reason for rate in (500.0, 6000.0, 15_000.0) for b in traffic(policy, rate).batches}
    assert seen - {Reason.PROBE, Reason.DEADLINE} <= reasons
    assert len(seen & reasons) >= 2


@pytest.mark.parametrize("policy", ["cork", "greedy", "window:2ms", "nexus"])
def test_full_means_full(policy: str) -> None:
    """A batch that says it is full holds as many as one may, once the model is known."""
    batches = [batch for batch in traffic(policy, 14_000.0).batches if batch.released > 0.2]
    assert any(batch.reason is Reason.FULL for batch in batches)
    assert all(batch.size == 64 for batch in batches if batch.reason is Reason.FULL)
