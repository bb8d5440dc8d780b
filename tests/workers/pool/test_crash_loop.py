"""A pool whose workers die as soon as they are started says so, and goes on trying."""

import os
import signal
from pathlib import Path

import pytest

from adaptive_batching.marshal.service.service import Service
from adaptive_batching.workers.elsewhere import Processes
from adaptive_batching.workers.pool.crash_loop import DeathRegister
from tests.marshal.client import client_of
from tests.workers.conditions import until

FLAG = "ADAPTIVE_BATCHING_TEST_WEIGHTS"


class NeedsItsWeights:
    """Ends its process while it loads, if a file has gone."""

    def __init__(self):
        if not Path(os.environ[FLAG]).exists():
            os._exit(7)

    def __call__(self, items):
        return [os.getpid()] * len(items)


async def test_a_crash_loop_is_told_by_health_and_readiness(tmp_path, monkeypatch, caplog):
    """Two killed and three that die while they load; what comes all the same is answered."""
    weights = tmp_path / "weights"
    weights.touch()
    monkeypatch.setenv(FLAG, str(weights))
    service = Service()
    service.endpoint("/", max_batch_size=1, workers=Processes(2))(NeedsItsWeights)
    async with client_of(service) as client:
        workers = client.running.dispatchers["/"].workers
        first, second = workers.pids
        weights.unlink()
        os.kill(first, signal.SIGKILL)
        await until(lambda: workers.health.restarts == 2)  # the first heir has died
        assert workers.health.crash_loop is None
        assert (await client.get("/readyz")).status == 200
        metrics = (await client.get("/metrics")).body
        assert b'adaptive_batching_crash_loop{endpoint="/"} 0.0' in metrics
        os.kill(second, signal.SIGKILL)
        await until(lambda: workers.health.crash_loop)
        told = str(workers.health.crash_loop)
        assert told.startswith("5 workers died within ")
        assert told.endswith(", exited with 7 before it was ready")
        answer = await client.get("/readyz")
        assert (answer.status, answer.error) == (503, "crash_loop")
        metrics = (await client.get("/metrics")).body
        assert b'adaptive_batching_crash_loop{endpoint="/"} 1.0' in metrics
        assert told in caplog.text
        assert f"(pid {first}) was killed by SIGKILL; another one is started in" in caplog.text
        weights.touch()
        await until(lambda: workers.health.alive)
        assert (await client.get("/readyz")).error == "crash_loop"
        assert (await client.post("/", 1)).status == 200
        assert (await client.get("/readyz")).status == 200


class Delicate:
    """One item is too much for its process."""

    def __call__(self, items):
        if "deadly" in items:
            os._exit(9)
        return items


@pytest.mark.parametrize(("examples", "others"), [((), ["harmless"]), (["harmless"], [])])
async def test_deadly_items_are_no_crash_loop(examples, others):
    """One client's items kill five workers that were seen to work: by answers, or by examples."""
    service = Service()
    service.endpoint("/", max_batch_size=1, examples=examples)(Delicate)
    async with client_of(service) as client:
        for _ in range(5):
            for item in others:
                assert (await client.post("/", item)).status == 200
            assert (await client.post("/", "deadly")).error == "worker_lost"
        workers = client.running.dispatchers["/"].workers
        await until(lambda: workers.health.alive)
        assert (await client.get("/readyz")).status == 200


def test_five_deaths_within_a_minute():
    """Fewer, or slower, is bad luck; and what was before an answered batch is forgotten."""
    deaths = DeathRegister()
    for now in (0.0, 20.0, 40.0, 50.0):
        deaths.enter("worker 1, exited with 1", now)
    assert deaths.crash_loop(50.0) is None
    deaths.enter("worker 2, exited with 2", 61.0)
    assert deaths.crash_loop(61.0) is None
    deaths.enter("worker 3, exited with 3", 79.0)
    message = "5 workers died within 59 s; the last, worker 3, exited with 3"
    assert str(deaths.crash_loop(79.9)) == message
    assert deaths.crash_loop(80.0) is None
    deaths.forget()
    for now in (81.0, 82.0, 83.0, 84.0):
        deaths.enter("worker 4, exited with 4", now)
    assert deaths.crash_loop(84.0) is None
