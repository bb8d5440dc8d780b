"""Several endpoints whose handlers live in the same workers."""

import asyncio
import os

import pytest

from adaptive_batching.instrumentation.recording import Recorder
from adaptive_batching.marshal.service.runner import Running
from adaptive_batching.marshal.service.service import Service
from adaptive_batching.marshal.service.shared_workers import SharedWorkers
from adaptive_batching.simulation.traffic.traces import read_trace
from adaptive_batching.workers.elsewhere import ExternalWorkers
from adaptive_batching.workers.placement import Threads
from tests.marshal import apps
from tests.marshal.client import client_of, until


def of_processes(**how):
    """A service whose two handlers share one process, or several."""
    service, shared = Service(), SharedWorkers(**how)
    service.endpoint("/square", workers=shared, max_batch_size=8, examples=[3])(apps.Square)
    service.endpoint("/slow", workers=shared, max_batch_size=4)(apps.Slow)
    service.endpoint("/faulty", workers=shared, max_batch_size=4)(apps.Faulty)
    return service


async def test_one_process_runs_the_batches_of_all():
    """Each caller gets the answer of the endpoint that it asked; nothing mixes."""
    async with client_of(of_processes()) as client:
        (pid,) = client.running.dispatchers["/slow"].workers.pids
        squares = [client.post("/square", n) for n in range(20)]
        slow = [client.post("/slow", n) for n in range(20)]
        answers = await asyncio.gather(*squares, *slow)
        assert [answer.json for answer in answers] == [*(n * n for n in range(20)), *[pid] * 20]
        assert pid != os.getpid()
        one, other = client.stats("/square"), client.stats("/slow")
        assert (sum(one.requests.values()), sum(other.requests.values())) == (20, 20)
        assert other.batches >= 5  # of four at the most
        assert one.fixed + one.per_item < other.fixed + other.per_item


async def test_an_endpoint_that_fails_harms_no_other():
    """Its own requests get its errors, each its own."""
    async with client_of(of_processes()) as client:
        bodies = ["error", b"{", "good"]
        answers = await asyncio.gather(*(client.post("/faulty", body) for body in bodies))
        assert [answer.status for answer in answers] == [500, 400, 200]
        assert (await client.post("/square", 3)).json == 9
        died = await client.post("/faulty", "die")
        assert (died.status, died.error) == (503, "worker_lost")
        await until(lambda: client.stats("/square").workers)
        assert (await client.post("/square", 3)).json == 9


async def test_shared_workers_are_renewed_once():
    """However many endpoints have them."""
    async with client_of(of_processes(workers=2)) as client:
        await client.running.refresh()
        assert client.running.dispatchers["/square"].workers.health.renewed == 2
        assert (await client.post("/square", 3)).json == 9


async def test_recordings_and_metrics_tell_the_endpoints_apart(tmp_path):
    """Each has its own counts, and a file of its own."""
    recorder = Recorder(tmp_path / "square.csv")
    async with client_of(of_processes(), observers={"/square": [recorder]}) as client:
        for _ in range(3):
            await client.post("/square", 3)
            await client.post("/slow", 3)
        exposed = (await client.get("/metrics")).body.decode()
    recorder.close()
    assert len(read_trace(tmp_path / "square.csv").times) == 3
    for path in ("/square", "/slow"):
        assert f'requests_total{{endpoint="{path}",outcome="done"}} 3.0' in exposed


async def test_coroutines_and_functions_share_as_well():
    """A batch of one endpoint waits while one of the other runs: there is one permit."""
    service, loop, threads = Service(), SharedWorkers(), SharedWorkers(Threads(1))
    gate = asyncio.Event()

    @service.endpoint("/wait", workers=loop)
    async def wait(items):
        await gate.wait()
        return items

    @service.endpoint("/double", workers=loop)
    async def double(items):
        return [2 * item for item in items]

    service.endpoint("/sorted", workers=threads)(lambda items: [sorted(item) for item in items])
    service.endpoint("/length", workers=threads)(lambda items: [len(item) for item in items])
    async with client_of(service) as client:
        waiting = asyncio.create_task(client.post("/wait", 1))
        await until(lambda: client.stats("/wait").running)
        doubled = asyncio.create_task(client.post("/double", 2))
        await until(lambda: client.stats("/double").queued)
        assert not doubled.done()
        in_flight = [client.stats(path).running_requests for path in ("/wait", "/double")]
        assert in_flight == [1, 0]
        assert (await client.post("/sorted", [2, 1])).json == [1, 2]
        assert (await client.post("/length", [2, 1])).json == 2
        gate.set()
        assert [(await waiting).json, (await doubled).json] == [1, 4]


async def test_who_is_due_first_goes_first_whichever_endpoint_it_asked():
    """The later request has the shorter promise, and is run before the earlier one.

    A batch that fails teaches nothing: were it known how short batches are, neither would hurry.
    """
    service, shared = Service(), SharedWorkers(policy="greedy")
    gate, ran = asyncio.Event(), []

    @service.endpoint("/patient", workers=shared, max_latency=60.0)
    async def patient(items):
        ran.append("patient")
        await gate.wait()
        return [ValueError("not this one")] if items == [1] else items

    @service.endpoint("/hasty", workers=shared, max_latency=10.0)
    async def hasty(items):
        ran.append("hasty")
        return items

    async with client_of(service) as client:
        first = asyncio.create_task(client.post("/patient", 1))
        await until(lambda: ran)
        second = asyncio.create_task(client.post("/patient", 2))
        await until(lambda: client.stats("/patient").queued)
        third = asyncio.create_task(client.post("/hasty", 3))
        await until(lambda: client.stats("/hasty").queued)
        gate.set()
        await asyncio.gather(first, second, third)
    assert ran == ["patient", "hasty", "patient"]


def test_what_an_endpoint_can_not_say_alone():
    """Policy and cores are the workers'; and not everything can be shared."""
    service = Service()
    with pytest.raises(ValueError, match=r"policy: expected it in SharedWorkers\(policy=...\)"):
        service.endpoint("/a", workers=SharedWorkers(), policy="greedy")
    with pytest.raises(ValueError, match="cpus: expected it in SharedWorkers"):
        service.endpoint("/a", workers=SharedWorkers(), cpus=[0])
    with pytest.raises(ValueError, match="psychic"):
        SharedWorkers(policy="psychic")
    service.endpoint("/a", workers=SharedWorkers(ExternalWorkers("/run/model.sock")))(apps.Square)
    with pytest.raises(ValueError, match="only tasks, threads and processes can be shared"):
        Running(service.description)
