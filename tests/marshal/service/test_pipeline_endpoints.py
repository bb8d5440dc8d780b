"""Pipelines behind HTTP: the first stage reads JSON, the last one writes it."""

import asyncio

import pytest

from adaptive_batching.instrumentation.recording import Recorder
from adaptive_batching.marshal.service.service import Service
from adaptive_batching.pipeline import Pipeline, Stage
from tests.marshal import apps
from tests.marshal.client import client_of


@pytest.fixture
async def client():
    async with client_of(apps.staged) as client:
        yield client


async def test_an_item_goes_through_all_stages(client):
    """From process to process to the loop, each with its own result."""
    texts = ["a bc", "def", "a b c d"]
    answers = await asyncio.gather(*(client.post("/letters", text) for text in texts))
    assert [(answer.status, answer.json) for answer in answers] == [(200, 3), (200, 3), (200, 4)]
    assert (await client.post("/one", [1, 2])).json == 3
    assert (await client.post("/twice", [3, 1, 2])).json == [1, 2, 3]


async def test_errors_of_a_stage(client):
    """Each is its own request's, whichever stage it comes from."""
    long = b'"' + b"a" * 1000 + b'"'
    bodies = [b"{", long, b'"bad"', b'""', b'"a"']
    answers = await asyncio.gather(*(client.post("/letters", body) for body in bodies))
    assert [(answer.status, answer.error) for answer in answers[:-1]] == [
        (400, "malformed"),
        (413, "body_too_large"),
        (503, "queue_full"),
        (500, "bad_batch_result"),
    ]
    assert answers[-1].json == 1


async def test_metrics_of_each_stage(client):
    """Batches are counted by stage, answers by path; all stages are ready."""
    await client.post("/letters", "a b")
    metrics = (await client.get("/metrics")).body.decode()
    for label in ("/letters:Split", "/letters:Lengths", "/letters:total", "/twice:sorted-2"):
        assert f'adaptive_batching_queue_items{{endpoint="{label}"}} 0.0' in metrics
    assert 'adaptive_batching_http_responses_total{code="200",endpoint="/letters"}' in metrics
    assert (await client.get("/readyz")).status == 200


async def test_workers_are_renewed(client):
    """Those of every stage, and nothing else changes."""
    before = client.running.dispatchers["/letters:Split"].workers.pids
    await client.running.refresh()
    assert not set(before) & set(client.running.dispatchers["/letters:Split"].workers.pids)
    assert (await client.post("/letters", "ab")).json == 2


async def test_a_stage_is_recorded_by_its_label(tmp_path):
    """A recording of a pipeline is that of one stage, as each has a latency of its own."""
    with Recorder(tmp_path / "total.csv") as recorder:
        async with client_of(apps.staged, observers={"/letters:total": [recorder]}) as client:
            assert (await client.post("/letters", "a b")).json == 2
    rows = (tmp_path / "total.csv").read_text().splitlines()
    assert len(rows) == 2  # the header and one request


def test_mistakes():
    """A path can be taken once, by a pipeline."""
    service = Service()
    service.add_pipeline("/a", Pipeline([Stage(sorted)]))
    with pytest.raises(ValueError, match="which is taken"):
        service.add_pipeline("/a", Pipeline([Stage(sorted)]))
    with pytest.raises(TypeError, match="expected Pipeline"):
        service.add_pipeline("/b", [Stage(sorted)])


async def test_the_first_stage_warms_up_with_json():
    """Its examples are what clients send; those of the others travel as they are."""
    seen = []

    async def first(items):
        seen.append(items)
        return [tuple(item) for item in items]

    async def second(items):
        seen.append(items)
        return [list(item) for item in items]

    service = Service()
    stages = [Stage(first, 1, examples=[[1]]), Stage(second, 1, examples=[(2,)])]
    service.add_pipeline("/", Pipeline(stages))
    async with client_of(service) as client:
        assert sorted(seen, key=str) == 3 * [[(2,)]] + 3 * [[[1]]]
        assert (await client.post("/", [3])).json == [3]
