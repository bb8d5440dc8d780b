"""Deployments of Ray Serve behind one queue."""

import asyncio
import os

import pytest

from adaptive_batching import Tasks, batched
from adaptive_batching.contrib.ray_serve import over_replicas
from adaptive_batching.errors import WorkerLost

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Ray Serve's own of pydantic


@pytest.fixture
def application(cluster):
    """A model in two replicas, and the one deployment that takes requests, batches for both."""
    from ray import serve

    small = {"ray_actor_options": {"num_cpus": 0}}

    @serve.deployment(num_replicas=2, max_ongoing_requests=1, **small)
    class Model:
        async def __call__(self, items):
            if "die" in items:
                os._exit(1)
            if "bad" in items:
                raise ValueError("no such text")
            await asyncio.sleep(0.1)
            return [(os.getpid(), len(items), item) for item in items]

    @serve.deployment(max_ongoing_requests=1000, **small)
    class Ingress:
        def __init__(self, model):
            decorate = batched(max_batch_size=16, workers=Tasks(2), policy="window:1h")
            self.predict = decorate(over_replicas(model))

        async def __call__(self, item):
            return await self.predict(item)

    serve.start(http_options={"location": "NoServer"})
    yield serve.run(Ingress.bind(Model.bind()), route_prefix=None)
    serve.shutdown()


async def test_requests_share_batches_before_they_are_dealt_out(application):
    """Two full batches, one in each replica; errors of a replica are as they were."""
    answers = await asyncio.gather(*(application.remote(item) for item in range(32)))
    assert [item for _, _, item in answers] == list(range(32))
    assert {size for _, size, _ in answers} == {16}
    assert len({process for process, _, _ in answers}) == 2
    for item, kind, message in (
        ("bad", ValueError, "no such text"),
        ("die", WorkerLost, "died while it held a batch of 16"),
    ):
        calls = (application.remote(item) for _ in range(16))
        errors = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(error, kind) and message in str(error) for error in errors)
