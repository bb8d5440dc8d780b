"""`/readyz?deep=1`: the endpoints' own examples, sent the way of every request."""

import asyncio

from adaptive_batching.marshal.service.service import Service
from adaptive_batching.pipeline import Pipeline, Stage
from tests.marshal.client import client_of, until


async def doubled(items):
    return [2 * item for item in items]


async def test_every_endpoint_answers_its_example():
    """Those without one are named; the pipeline's is that of its first stage."""
    service = Service()
    service.endpoint("/double", examples=[1])(doubled)
    service.endpoint("/silent")(doubled)
    service.add_pipeline("/staged", Pipeline([Stage(doubled, max_batch_size=4, examples=[2])]))
    async with client_of(service, admin=("127.0.0.1", 0)) as client:
        answer = await client.get("/readyz?deep=1")
        found = {"/double": "ok", "/silent": "no_example", "/staged": "ok"}
        assert (answer.status, answer.json) == (200, {"status": "ready", "endpoints": found})
        async with client.session.get(f"{client.running.admin_url}/readyz?deep=1") as response:
            assert (await response.json())["endpoints"] == found
        assert (await client.get("/readyz")).json == {"status": "ready"}


async def test_a_worker_that_answers_nothing_is_not_ready():
    """Alive it is; the code tells what became of the example."""
    service, stuck = Service(), asyncio.Event()

    @service.endpoint("/", max_batch_size=1, max_latency=0.2, examples=[1])
    async def handler(items):
        if stuck.is_set():
            await asyncio.sleep(1)
        return items

    async with client_of(service) as client:
        stuck.set()
        assert (await client.get("/readyz")).status == 200
        answer = await client.get("/readyz?deep=1")
        assert (answer.status, answer.error) == (503, "example_failed")
        assert answer.json["endpoints"] == {"/": "deadline_exceeded"}


async def test_a_crowd_that_asks_sends_one_example():
    """Nobody can flood the workers by asking how they are."""
    service, batches = Service(), []

    @service.endpoint("/", max_batch_size=1, examples=[1])
    async def handler(items):
        batches.append(items)
        return items

    async with client_of(service) as client:
        await until(lambda: client.running.endpoints["/"].backend.ready)
        batches.clear()
        answers = await asyncio.gather(*(client.get("/readyz?deep=1") for _ in range(50)))
        assert {answer.status for answer in answers} == {200}
    assert batches == [[1]]
