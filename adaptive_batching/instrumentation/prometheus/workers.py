"""Workers: how many live, who could take a batch, how often they died, how they compare."""

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from adaptive_batching.instrumentation.prometheus.definition import counter, gauge
from adaptive_batching.instrumentation.prometheus.endpoints import Readings, gauges

WORKERS = gauge("workers", "Workers that are alive, and that should be", "state")
PERMITS = gauge(
    "permits", "Batches that may run at a time: those that do, and those that could", "state"
)
RESTARTS = counter("worker_restarts", "Workers that died, started again")
RENEWALS = counter("worker_renewals", "Workers that made way for fresh ones")
CRASH_LOOP = gauge("crash_loop", "1 while workers die too often for an endpoint to be ready")
BATCHES = counter("worker_batches", "Batches that a worker has ended", "worker")
FULL_BATCH = gauge("worker_full_batch_seconds", "Predicted seconds of a full batch", "worker")
SLOWNESS = gauge("worker_slowness", "Times as long as most workers take", "worker")

DEFINITIONS = (
    *(WORKERS, PERMITS, RESTARTS, RENEWALS, CRASH_LOOP),
    *(BATCHES, FULL_BATCH, SLOWNESS),
)


def collect(readings: Readings) -> Iterator[Metric]:
    """Of all endpoints."""
    workers, permits = WORKERS.family(), PERMITS.family()
    restarts, renewals = RESTARTS.family(), RENEWALS.family()
    for endpoint, reading in readings.items():
        health, stats = reading.health, reading.stats
        workers.add_metric([endpoint, "alive"], health.alive)
        workers.add_metric([endpoint, "missing"], health.missing)
        permits.add_metric([endpoint, "taken"], stats.running)
        permits.add_metric([endpoint, "idle"], stats.idle)
        restarts.add_metric([endpoint], health.restarts)
        renewals.add_metric([endpoint], health.renewed)
    yield workers
    yield permits
    yield restarts
    yield renewals
    yield from gauges(readings, {CRASH_LOOP: lambda each: each.health.crash_loop is not None})
    yield from _each(readings)


def _each(readings: Readings) -> Iterator[Metric]:
    """By index, which a worker keeps when it is started again: as many values as workers."""
    batches, full, slowness = BATCHES.family(), FULL_BATCH.family(), SLOWNESS.family()
    for endpoint, reading in readings.items():
        for index, worker in enumerate(reading.stats.per_worker):
            batches.add_metric([endpoint, str(index)], worker.batches)
            full.add_metric([endpoint, str(index)], worker.full_batch)
            slowness.add_metric([endpoint, str(index)], worker.slowness)
    yield batches
    yield full
    yield slowness
