"""The port of operators, before a service and before a sidecar."""

import asyncio

import aiohttp

from adaptive_batching.marshal.config.routes_file import RoutesFile
from adaptive_batching.marshal.service.service import Service
from adaptive_batching.marshal.sidecar.runner import SidecarRunning
from tests.marshal import apps
from tests.marshal.client import Answer, client_of

LOOPBACK = ("127.0.0.1", 0)


async def ask(client, method, path, **how):
    """Ask the admin port of a client's service."""
    url = client.running.admin_url + path
    async with client.session.request(method, url, **how) as response:
        return Answer(response.status, response.headers, await response.read())


async def test_operators_have_their_pages_and_clients_theirs():
    """Health and readiness for both; with an admin port, metrics only there."""
    async with client_of(apps.service, admin=LOOPBACK) as client:
        await client.post("/square", 3)
        for path in ("/healthz", "/readyz"):
            assert (await ask(client, "GET", path)).status == 200
            assert (await client.get(path)).status == 200
        assert b'requests_total{endpoint="/square"' in (await ask(client, "GET", "/metrics")).body
        assert (await client.get("/metrics")).status == 404
        assert (await client.send("POST", "/reload")).status == 404
        assert (await ask(client, "POST", "/square", data=b"3")).status == 404


async def test_workers_are_renewed_on_request():
    """POST /reload does what SIGHUP does, and says when it is done; two at a time take turns."""
    async with client_of(apps.service, admin=LOOPBACK) as client:
        before = (await client.post("/slow", 0)).json
        answers = await asyncio.gather(*(ask(client, "POST", "/reload") for _ in range(2)))
        assert [answer.status for answer in answers] == [200, 200]
        assert (await client.post("/slow", 0)).json != before
        assert client.running.dispatchers["/slow"].workers.health.renewed == 2


async def test_no_web_page_acts_in_an_operators_name():
    """Browsers name the page that a POST comes from; and looking at something does nothing."""
    async with client_of(Service(), admin=LOOPBACK) as client:
        forged = await ask(client, "POST", "/reload", headers={"Origin": "http://evil.example"})
        assert (forged.status, forged.error) == (403, "cross_origin")
        answer = await ask(client, "GET", "/reload")
        assert (answer.status, answer.headers["Allow"]) == (405, "POST")
        answer = await ask(client, "POST", "/readyz")
        assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")


async def test_an_operator_is_told_what_is_wrong_with_the_file(tmp_path):
    """The sidecar's routes stay as they were."""
    file = tmp_path / "routes.toml"
    file.write_text('[routes.a]\nprotocol = "json"\nupstreams = ["http://127.0.0.1:9"]\n')
    running = SidecarRunning(RoutesFile(file), admin=LOOPBACK)
    await running.start("127.0.0.1", 0)
    try:
        async with aiohttp.ClientSession() as session:
            async with session.post(f"{running.admin_url}/reload") as response:
                assert (response.status, await response.json()) == (200, {"status": "reloaded"})
            file.write_text("[routes.a]\nprotocol = 'psychic'\n")
            async with session.post(f"{running.admin_url}/reload") as response:
                assert response.status == 500
                assert "routes.a" in (await response.json())["message"]
    finally:
        await running.stop(1.0)
    assert [*running.dispatchers] == ["a"]
