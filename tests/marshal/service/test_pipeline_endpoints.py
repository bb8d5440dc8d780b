"""Pipelines behind HTTP: the first stage reads JSON, the last one writes it."""

import asyncio
from itertools import chain

import pytest

from adaptive_batching.instrumentation.recording import Recorder
from adaptive_batching.marshal.service.service import Service
from adaptive_batching.pipeline import Pipeline, Stage
from tests.marshal import apps
from tests.marshal.client import client_of, until


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


class Staged:
    """A service with two stages that say which items were together."""

    def __init__(self, *, max_queue=256, gate=None, **how):
        self.service, self.seen = Service(), [[], []]

        async def first(items: list[int]):
            if gate is not None:
                await gate.wait()
            self.seen[0].append(items)
            return items

        async def second(items) -> list[int]:
            self.seen[1].append(items)
            return [ValueError("secret") if each == 13 else each * 2 for each in items]

        policy = "window:1h" if gate is None else "greedy"
        stages = [Stage(first, 2, policy=policy, max_queue=max_queue), Stage(second, 2)]
        self.service.add_pipeline("/staged", Pipeline(stages), **how)


@pytest.mark.parametrize("key", ["X-Model", lambda item: item % 3])
async def test_keys_keep_items_apart_in_every_stage(key):
    """Those of a header as well as those of a function, from HTTP and from the program."""
    staged = Staged(key=key)
    async with client_of(staged.service) as client:
        answers = await asyncio.gather(
            *(client.post("/staged", n, headers={"X-Model": str(n % 3)}) for n in range(6))
        )
        assert [answer.json for answer in answers] == [0, 2, 4, 6, 8, 10]
        told = {"key": "x"} if key == "X-Model" else {}
        ours = (staged.service["/staged"](n, **told) for n in (6, 9))
        assert await asyncio.gather(*ours) == [12, 18]
    for stage in staged.seen:
        assert sorted(map(sorted, stage)) == [[0, 3], [1, 4], [2, 5], [6, 9]]


async def test_a_list_goes_through_all_stages():
    """Its items join batches, and the first that fails is told by its index."""
    staged = Staged(many=True)
    async with client_of(staged.service) as client:
        assert (await client.post("/staged", [1, 2, 3, 4])).json == [2, 4, 6, 8]
        assert (await client.post("/staged", [])).json == []
        assert await staged.service["/staged"]([5, 6]) == [10, 12]
        failed = await client.post("/staged", [1, 13, 3, 4])
        assert (failed.status, failed.error, failed.json["path"]) == (500, "handler_error", "$[1]")
        assert (await client.post("/staged", 1)).error == "invalid_item"
        long = await client.post("/staged", [1] * 257)
        assert (long.status, long.error) == (413, "too_many_items")
        document = (await client.get("/openapi.json")).json
    body = document["paths"]["/staged"]["post"]["requestBody"]["content"]["application/json"]
    assert (body["schema"]["type"], body["schema"]["maxItems"]) == ("array", 256)
    assert {len(batch) for stage in staged.seen for batch in stage} <= {1, 2}


async def test_a_list_that_finds_no_room_is_refused_whole():
    """No stage works on an item of it."""
    gate = asyncio.Event()
    staged = Staged(many=True, max_queue=3, gate=gate)
    async with client_of(staged.service) as client:
        first = asyncio.create_task(client.post("/staged", [1]))
        entrance, _ = client.running.dispatchers.values()
        await until(lambda: entrance.stats().running)
        refused = await client.post("/staged", [2, 3, 4])
        assert (refused.status, refused.error) == (503, "queue_full")
        assert refused.headers["Retry-After"]
        gate.set()
        assert (await first).json == [2]
        assert (await client.post("/staged", [5, 6, 7])).json == [10, 12, 14]
    assert sorted(chain.from_iterable(staged.seen[0])) == [1, 5, 6, 7]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"key": 5}, "key: expected a function or the name of a header, got 5"),
        (
            {"many": True, "codec": "raw", "item": bytes, "result_codec": "json"},
            "codec: expected json, msgpack or npy",
        ),
    ],
)
def test_mistakes_in_keys_and_lists(how, message):
    """They are found when the pipeline is registered."""
    with pytest.raises((TypeError, ValueError), match=message):
        Staged(**how)
