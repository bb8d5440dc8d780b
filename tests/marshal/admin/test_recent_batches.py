"""`/debug/batches`: an operator finds out what became of a request, and of whom it met."""

import asyncio
from datetime import UTC, datetime

import pytest

from tests.marshal import apps
from tests.marshal.admin.test_admin import LOOPBACK, ask
from tests.marshal.client import client_of


async def debug(client, query="", **headers):
    return await ask(client, "GET", f"/debug/batches{query}", headers=headers)


def named(name):
    return {"headers": {"X-Request-Id": name}}


async def test_a_request_is_found_under_its_id():
    """With why its batch left, what was predicted and what was measured."""
    async with client_of(apps.service, admin=LOOPBACK) as client:
        await client.post("/square", 3, **named("first"))
        await client.post("/slow", 3, **named("other"))
        answer = await client.post("/square", 4)
        newest, oldest = (await debug(client)).json["/square"]
        assert oldest["members"] == ["first"]
        assert newest["members"] == [answer.headers["X-Request-Id"]]
        assert (newest["number"], newest["worker"], newest["items"]) == (1, 0, 1)
        assert (newest["reason"], newest["outcome"], newest["requests"]) == ("idle", "done", 1)
        assert newest["predicted_seconds"] == pytest.approx(oldest["measured_seconds"], rel=0.01)
        age = datetime.now(UTC) - datetime.fromisoformat(newest["ended"])
        assert 0 <= age.total_seconds() < 5


async def test_members_are_those_who_shared_a_batch():
    """Eight who came while the worker was busy, oldest first, after the one they waited for."""
    async with client_of(apps.service, admin=LOOPBACK) as client:
        calls = [client.post("/slow", 0, **named(f"request-{number}")) for number in range(9)]
        await asyncio.gather(*calls)
        batches = (await debug(client, "?endpoint=/slow")).json["/slow"]
        members = [name for each in reversed(batches) for name in each["members"]]
        assert sorted(members) == sorted(f"request-{number}" for number in range(9))
        assert sum(each["requests"] for each in batches) == 9


async def test_one_endpoint_and_so_many():
    """What is not there, or is no number, is told."""
    async with client_of(apps.service, admin=LOOPBACK) as client:
        for number in range(3):
            await client.post("/square", number)
        only = (await debug(client, "?endpoint=/square&limit=2")).json
        assert [each["number"] for each in only["/square"]] == [2, 1]
        assert [*only] == ["/square"]
        assert [*(await debug(client)).json] == ["/square", "/slow"]
        assert (await debug(client, "?endpoint=/nothing")).status == 404
        for limit in ("0", "-1", "many", "", "1e3", "9" * 5000, "\N{SUPERSCRIPT TWO}"):
            answer = await debug(client, f"?limit={limit}")
            assert (answer.status, answer.error) == (400, "bad_limit")


async def test_a_request_has_one_name_in_all_stages():
    """Of a pipeline each stage has batches of its own."""
    async with client_of(apps.staged, admin=LOOPBACK) as client:
        assert (await client.post("/letters", "a bc", **named("who"))).json == 3
        stages = (await debug(client)).json
        for stage in ("Split", "Lengths", "total"):
            [batch] = stages[f"/letters:{stage}"]
            assert batch["members"] == ["who"]


async def test_before_a_model_server_as_well(model, before):
    """Pieces of a request that was cut have its name, and so has what the client is told."""
    client = await before(max_batch_size=2)
    status, _, headers = await client.predict(1, 2, 3, X_Request_Id="who")
    assert (status, headers["X-Request-Id"]) == (200, "who")
    batches = (await debug(client)).json["models"]
    assert [each["members"] for each in batches] == [["who"], ["who"]]
    _, _, headers = await client.predict(1)
    [newest] = (await debug(client, "?limit=1")).json["models"]
    assert newest["members"] == [headers["X-Request-Id"]]


async def test_it_is_not_for_pages_of_others():
    """Nor for a name that resolves to us (DNS rebinding); and it is kept by nobody."""
    async with client_of(apps.service, admin=LOOPBACK) as client:
        for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "a:b:c", "["):
            answer = await debug(client, Host=host)
            assert (answer.status, answer.error) == (403, "forbidden_host")
        for origin in ("http://evil.example", "null", "http://127.0.0.1:1"):
            answer = await debug(client, Origin=origin)
            assert (answer.status, answer.error) == (403, "cross_origin")
        port = client.running.admin_url.rpartition(":")[2]
        for host in (f"localhost:{port}", f"[::1]:{port}", "10.0.0.7", f"127.0.0.1:{port}"):
            answer = await debug(client, Host=host, Origin=f"http://{host}")
            assert answer.status == 200
            assert answer.headers["Cache-Control"] == "no-store"
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert (await ask(client, "GET", "/metrics", headers={"Host": "pod.svc"})).status == 200
        assert (await client.get("/debug/batches")).status == 404
