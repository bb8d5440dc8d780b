"""What operators see, and that nobody else does."""

import asyncio
import json
import logging

import pytest
from prometheus_client.parser import text_string_to_metric_families
from yarl import URL

from adaptive_batching.core import JobOutcome
from tests.cli.test_top import top
from tests.marshal.sidecar.peers.raw import exchange, parsed
from tests.marshal.sidecar.peers.scripted import refusing, url_of
from tests.workers.conditions import until


async def page(client, path):
    """Status and text of a page of the admin port."""
    async with client.session.get(client.running.admin_url + path) as response:
        return response.status, await response.text()


async def samples(client):
    """The value of each series, by its name and its labels' values in the order of the labels."""
    _, text = await page(client, "/metrics")
    return {
        (
            sample.name.removeprefix("adaptive_batching_"),
            *dict(sorted(sample.labels.items())).values(),
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_health_and_readiness(model, before):
    """Alive as long as it runs, ready until it is told to end."""
    client = await before()
    assert await page(client, "/healthz") == (200, '{"status": "ok"}')
    assert await page(client, "/readyz") == (200, '{"status": "ready"}')
    client.running.announce_end()
    status, text = await page(client, "/readyz")
    assert (status, "draining" in text) == (503, True)
    assert (await page(client, "/healthz"))[0] == 200
    assert (await page(client, "/nothing"))[0] == 404


async def test_readiness_is_not_that_of_the_servers(before):
    """None is there, or none has time: that is for their own probes to say."""
    with refusing() as one, refusing() as other:
        client = await before(servers=[url_of(one), url_of(other)])
        assert (await client.predict(1))[0] == 502
        assert not any(each.stats().workers for each in client.running.dispatchers.values())
        assert (await page(client, "/readyz"))[0] == 200


@pytest.mark.parametrize("concurrency", [1, 2])
async def test_a_server_that_is_down_is_named(model, before, concurrency):
    """Once, by its address as in metrics and logs, in the terminal and in what the page is sent."""
    with refusing() as dead:
        down = url_of(dead)
        client = await before(servers=[down, str(model.url)], more={"concurrency": concurrency})
        while (await samples(client))["upstream_state", "models", "ejected", down] != 1:
            await client.predict(1)
        client.running.broadcast.look()
        status, shown, _ = await top(client.running.admin_url, "--once")
        assert status == 0
        assert shown.count(" is down") == 1
        assert f"; {down} is down" in " ".join(shown.split())
        _, told = await page(client, "/debug/live")
        workers = json.loads(told)["endpoints"][0]["workers"]
        assert [each["name"] for each in workers if not each["alive"]] == [down] * concurrency


async def test_readiness_that_is_asked_for_deeply(model, before, unused_tcp_port):
    """It is connected to the servers, of which one is enough."""
    nobody = f"http://127.0.0.1:{unused_tcp_port}"
    client = await before(servers=[nobody, str(model.url)])
    status, text = await page(client, "/readyz?deep=1")
    assert (status, json.loads(text)["endpoints"]) == (200, {"models": "ok"})
    client = await before(servers=[nobody])
    status, text = await page(client, "/readyz?deep=1")
    told = {"error": "upstream_unreachable", "endpoints": {"models": "upstream_unreachable"}}
    assert (status, json.loads(text)) == (503, told)
    assert (await page(client, "/readyz"))[0] == 200


async def test_metrics(model, before):
    """Batches by route, answers by status: ours, and the servers' to batches and to others."""
    client = await before()
    requests = [client.predict(n) for n in (0, 1, "bad")]
    await client.together(model, *requests, queued=2)
    async with client.session.get(f"{client.url}/else"):
        pass
    seen = await samples(client)
    assert seen["http_responses_total", "200", "models"] == 3
    assert seen["http_responses_total", "400", "models"] == 1
    assert seen["upstream_responses_total", "200", "models", "batch"] == 2
    assert seen["upstream_responses_total", "400", "models", "batch"] == 2  # halved once
    assert seen["upstream_responses_total", "200", "models", "passed"] == 1
    assert seen["batch_size_count", "models"] == 4
    # Who is told by the server that his request is a bad one has his answer.
    assert client.running.dispatchers["models"].stats().requests[JobOutcome.DONE] == 3


async def test_t14_admin_pages_are_not_on_the_data_port(model, before):
    """There they are the model server's, if it has any; and none without a port of their own."""
    client = await before()
    for path in ("/healthz", "/readyz", "/metrics"):
        async with client.session.get(client.url + path) as response:
            assert await response.text() == f"GET {path} 0"
    assert URL(client.running.admin_url).host == "127.0.0.1"


async def test_t12_no_client_makes_up_a_label(model, before):
    """Paths, methods and bodies may be anything: there are as many series as before."""
    client = await before()
    await client.predict(1)
    async with client.session.get(f"{client.url}/first"):
        pass
    first = await samples(client)
    for number in range(100):
        async with client.session.post(f"{client.url}/{number}", data=str(number)) as response:
            assert response.status == 200
        await client.predict(number, model=f"m{number}")
    second = await samples(client)
    assert first.keys() == second.keys()


async def test_a_server_that_is_not_there_is_named_at_once(before, unused_tcp_port, caplog):
    """In words and in fields, before the first request fails."""
    server = URL(f"http://127.0.0.1:{unused_tcp_port}")
    with caplog.at_level(logging.WARNING, "adaptive_batching"):
        await before(server=server)
        await until(lambda: caplog.records)
    [record] = caplog.records
    assert record.message.startswith(f"upstream {server} can't be reached: ")
    assert record.upstream == str(server)


async def test_f27_a_scraper_that_does_not_read_harms_nobody(model, before):
    """Metrics wait in its socket, requests do not."""
    client = await before()
    url = URL(client.running.admin_url)
    _, writer = await asyncio.open_connection(url.host, url.port, limit=1)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n" * 30)
    await writer.drain()
    status, answer, _ = await client.predict(1)
    assert (status, answer) == (200, {"predictions": [2]})
    writer.close()


@pytest.mark.parametrize("method", [b"POST", b"DELETE"])
async def test_pages_are_for_looking_at(model, before, method):
    client = await before()
    head = b" /metrics HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
    [answer] = parsed(await exchange(client.running.admin_url, method + head))
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
