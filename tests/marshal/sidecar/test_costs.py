"""Items that don't cost the same, before a real server that pads them to the longest."""

import asyncio
import json
from collections import Counter

import pytest
from aiohttp import web
from yarl import URL

from adaptive_batching import Recorder
from adaptive_batching.core import Costs, JobOutcome, Limits, Scheduler, make_policy
from adaptive_batching.simulation import ArrivalStream, History, Server, drive
from adaptive_batching.simulation.traffic.traces import read_trace
from adaptive_batching.wire.generic import GenericJSON
from adaptive_batching.wire.item_cost import parse_item_cost
from tests.cli.test_top import top
from tests.marshal.admin.test_admin import ask

SHORT, LONG = "s" * 10, "l" * 2000


class PaddingServer:
    """Answers with the length of each text, after a time that grows with its padded batch."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    async def answer(self, request: web.Request) -> web.Response:
        texts = json.loads(await request.text())
        lengths = [len(text) for text in texts]
        self.batches.append(texts)
        await asyncio.sleep(2e-3 + 5e-6 * len(texts) * max(lengths))
        return web.json_response(lengths)


@pytest.fixture
async def padding():
    server = PaddingServer()
    application = web.Application()
    application.router.add_post("/{tail:.*}", server.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = URL(f"http://127.0.0.1:{site.port}")
    yield server
    await runner.cleanup()


@pytest.fixture
async def start(padding, before):
    """Start a sidecar whose items cost their characters, or what is said instead."""

    async def start(cost="chars", *, costs=Costs(padded=True), sizes=(), **options):  # noqa: B008  it is frozen
        filled = {"sizes": sizes, "pads": True} if sizes else {}
        more = {"item_cost": parse_item_cost(cost), "costs": costs, **filled}
        return await before(server=padding.url, form=GenericJSON(), more=more, **options)

    return start


async def send(client, *items):
    """Status, answer and headers."""
    async with client.session.post(f"{client.url}/lengths", json=items) as response:
        return response.status, await response.json(), response.headers


async def recent(client):
    return (await ask(client, "GET", "/debug/batches?limit=256")).json["models"]


async def test_short_and_long_texts_leave_in_separate_batches(start):
    """Under load, after a quiet hour, hardly any short text is padded to 200 times its length."""
    client = await start(policy="cork")
    for text in [SHORT, LONG] * 8:
        await send(client, text)

    async def caller(text):
        for _ in range(12):
            status, answer, _ = await send(client, text)
            assert (status, answer) == (200, [len(text)])

    await asyncio.gather(*(caller(text) for text in [SHORT, LONG] * 12))
    batches = await recent(client)
    several = [each for each in batches if each["items"] > 1]
    mixed = [each for each in several if each["padding"]]
    assert {each["cost"] / each["items"] for each in several} == {len(SHORT), len(LONG)}
    assert len(several) > 12
    assert len(mixed) < 0.2 * len(several)


async def test_requests_are_cut_where_a_batch_would_cost_too_much(start, padding):
    """Three of four texts fit into a batch, padded to the longest."""
    client = await start(costs=Costs(padded=True, max_batch_cost=30))
    status, answer, _ = await send(client, *(["a" * 10] * 4))
    assert (status, answer) == (200, [10] * 4)
    assert sorted(map(len, padding.batches)) == [1, 3]
    assert all(each["cost"] <= 30 for each in await recent(client))


async def test_costs_that_are_not_padded_add_up(start, padding):
    """One long text and short ones are one batch, whatever their lengths, up to the limit."""
    client = await start(costs=Costs(max_batch_cost=30))
    assert (await send(client, "a" * 20, "b", "c"))[1] == [20, 1, 1]
    assert len(padding.batches) == 1
    [batch] = await recent(client)
    assert (batch["cost"], batch["padding"]) == (22, 0)


async def test_a_batch_may_cost_nothing(start, padding):
    """Its cost is told as any other: there are costs, and this one is 0."""
    client = await start()
    assert (await send(client, "", ""))[1] == [0, 0]
    [batch] = await recent(client)
    assert (batch["cost"], batch["padding"]) == (0, 0)


async def test_an_item_that_no_batch_can_pay_for_is_refused(start, padding):
    """With the limit and what it costs; the server does not get it."""
    client = await start(costs=Costs(padded=True, max_batch_cost=30))
    status, answer, _ = await send(client, "a", "b" * 31)
    assert status == 413
    assert "max_batch_cost=30 each, got one that costs 31" in answer["message"]
    assert padding.batches == []
    counted = client.running.dispatchers["models"].stats().requests
    assert +Counter(counted) == {JobOutcome.SHED: 1}


async def test_a_recording_has_the_cost_of_what_is_refused_for_it(start, tmp_path):
    """So a simulation with the same limit refuses it, too."""
    path, costs = tmp_path / "recording.csv", Costs(padded=True, max_batch_cost=30)
    with Recorder(path) as recorder:
        client = await start(costs=costs, observers=[recorder])
        assert [(await send(client, *texts))[0] for texts in (["a"], ["b" * 31, "b"])] == [200, 413]
    trace = read_trace(path)
    assert (trace.sizes.tolist(), trace.costs.tolist()) == ([1, 2], [1, 31])
    simulated = History()
    feed = ArrivalStream(trace.times, sizes=trace.sizes.tolist(), costs=trace.costs.tolist())
    scheduler = Scheduler(make_policy("cork"), Limits(costs=costs), workers=1)
    drive(feed, [scheduler], Server(1e-3, 0.0).service(), simulated)
    assert Counter(job.outcome for job in simulated.jobs) == {
        JobOutcome.DONE: 1,
        JobOutcome.SHED: 1,
    }


async def test_a_request_without_its_cost_is_passed_on(start, padding, caplog):
    """It shares no batch, which the log says once; the server says what is wrong, if anything."""
    client = await start("/length")
    for _ in range(2):
        status, answer, headers = await send(client, "abc")
        assert (status, answer) == (200, [3])
    told = "requests without their cost (--cost) are passed on one by one (said once): expected "
    assert caplog.text.count(told) == 1
    assert "X-Batch-Size" not in headers
    assert await recent(client) == []


async def test_top_says_how_much_of_the_work_is_padding(start):
    """The same share as in the batches that it is a share of."""
    client = await start()
    await send(client, "a")
    client.running.broadcast.look()
    _, plain, _ = await top(client.running.admin_url, "--once")
    assert "0 % of the work is padding" in plain
    await asyncio.gather(*(send(client, text) for text in ("a", "b", "ccc")))
    client.running.broadcast.look()
    batches = await recent(client)
    share = sum(each["padding"] for each in batches) / sum(each["cost"] for each in batches)
    _, output, _ = await top(client.running.admin_url, "--once")
    assert f"{100 * share:.3g} % of the work is padding" in output


async def test_a_route_without_costs_tells_of_none(padding, before):
    """The page of its batches is as it was."""
    client = await before(server=padding.url, form=GenericJSON())
    await send(client, "abc")
    [batch] = await recent(client)
    assert "cost" not in batch
    assert "padding" not in batch


@pytest.mark.parametrize("place", [0, 2, 4])
async def test_a_request_of_several_items_is_filled_up_with_its_cheapest(start, padding, place):
    """Wherever the costly text stands, five run as sixteen at no more than a batch may cost."""
    client = await start(costs=Costs(max_batch_cost=64), sizes=(1, 16), max_batch_size=16)
    texts = ["a", "b", "c", "d"]
    texts.insert(place, "e" * 9)
    status, lengths, _ = await send(client, *texts)
    assert (status, lengths) == (200, [*map(len, texts)])
    [batch] = padding.batches
    assert batch[:5] == texts
    assert [*map(len, batch[5:])] == [1] * 11
