"""What `cork` does when more comes than can be done, told through the simulator.

One worker, batches of 5 ms + 0.05 ms an item, at most 64: 7,805 requests a second.
"""

import pytest

from adaptive_batching.core import Job, JobOutcome, Limits, LinearLatency, QueueView, Scheduler
from adaptive_batching.core.estimators.timer_lateness import Punctuality
from adaptive_batching.core.permits import Permits
from adaptive_batching.core.policies.cork.cork import Cork
from adaptive_batching.core.policies.shedding import hopeless
from adaptive_batching.core.queue import JobQueue
from adaptive_batching.simulation import Drift, History, Server, poisson, simulate

CAPACITY = 64 / 8.2e-3  # requests a second and worker
PROMISE = 25e-3  # seconds


def goodput(history: History, begin: float, end: float) -> float:
    """Share of the requests of a span that were answered in time."""
    sent = [job for job in history.jobs if begin <= job.arrived < end]
    good = [job.outcome is JobOutcome.DONE and job.latency <= PROMISE for job in sent]
    return sum(good) / len(good)


@pytest.mark.parametrize("seed", range(3))
def test_a_model_that_slows_down(seed: int) -> None:
    """Batches take twice as long from 2 s on, more than can be done: 70 % are answered in time from
    the first second on. Who knew it would manage 74 %.
    """
    server = Server(5e-3, 0.05e-3, conditions=(Drift(2.0, 2.0),))
    scheduler = Scheduler(Cork(), Limits(64, PROMISE))
    history = simulate(poisson(0.52 * CAPACITY, 5.0, seed=seed), scheduler, server.service())
    assert goodput(history, 0.5, 2.0) == 1.0
    assert goodput(history, 2.0, 3.0) >= 0.7
    assert goodput(history, 3.0, 5.0) >= 0.72


def test_a_margin_needs_somebody_to_take_the_place() -> None:
    """Of seventy that a slow batch would be too late for, six make room for those who fill it."""
    latency = LinearLatency()
    for size in [8, 16, 32, 64] * 10:
        latency.observe(size, 5e-3 + 0.05e-3 * size)
    queue = QueueView(JobQueue(), Permits(1), Limits(64, PROMISE), latency, Punctuality())
    deadline = 1.05 * latency.predict(64)
    for _ in range(70):
        queue.queue.append(Job(0.0, deadline=deadline))
    assert len(hopeless(queue, 0.1, now=0.0)) == 6
    assert not hopeless(queue, 0.0, now=0.0)
