"""Tenants and priorities before a real server: who comes behind a flood, and who is urgent."""

import asyncio

import pytest
from click.testing import CliRunner

from adaptive_batching.cli import main
from adaptive_batching.core import Fairness, Priority
from adaptive_batching.errors import ConfigError
from adaptive_batching.marshal.config.limits import Bounds
from adaptive_batching.marshal.config.routes_file import read_routes
from adaptive_batching.marshal.sidecar.tenancy import Claims
from tests.workers.conditions import until

ROUTE = """
[routes.models]
upstreams = ["http://127.0.0.1:1"]
protocol = "tensorflow"
"""


async def behind_a_flood(model, client, flood, *others):
    """What is in the second batch, if the first is at the server while all of these come."""

    def queued():
        return client.running.dispatchers["models"].stats().queued

    model.gate.clear()
    tasks = [asyncio.ensure_future(client.predict(0, **flood))]
    await until(lambda: model.batches)
    tasks += [asyncio.ensure_future(client.predict(n, **flood)) for n in range(1, 13)]
    await until(lambda: queued() == 12)
    tasks += [asyncio.ensure_future(client.predict(100, **other)) for other in others]
    await until(lambda: queued() == 12 + len(others))
    model.gate.set()
    assert {status for status, *_ in await asyncio.gather(*tasks)} == {200}
    return model.batches[1]


async def test_t11_who_comes_behind_a_flood_is_in_the_next_batch(model, before):
    """Two of another tenant share the next batch with as many of the flood, in a batch of four."""
    client = await before(max_batch_size=4, bounds=Bounds(tenant_header="X-Tenant"))
    other = {"X_Tenant": "quiet"}
    second = await behind_a_flood(model, client, {"X_Tenant": "flood"}, other, other)
    assert sorted(second)[2:] == [100, 100]


async def test_without_a_header_who_comes_last_is_served_last(model, before):
    """Nobody asks whose a request is unless he is told to."""
    client = await before(max_batch_size=4)
    assert await behind_a_flood(model, client, {}, {"X_Tenant": "quiet"}) == [1, 2, 3, 4]


async def test_a_high_priority_goes_first(model, before):
    """Within the same tenant, which is all of them where none is named."""
    client = await before(max_batch_size=4, more={"priority_header": "X-Priority"})
    second = await behind_a_flood(model, client, {}, {"X_Priority": "High"}, {"X_Priority": "low"})
    assert sorted(second) == [1, 2, 3, 100]


@pytest.mark.parametrize("path", ["/v1/models/m:predict", "/other"])
async def test_t7_connection_removes_no_claim(model, before, path):
    """A proxy before the sidecar may have set it: the server is told it, with a batch of one too.

    Others share batches all the same.
    """
    bounds = Bounds(tenant_header="X-Tenant")
    client = await before(bounds=bounds, more={"priority_header": "X-Priority"})
    own = {"X-Tenant": "a", "X-Priority": "high", "X-Other": "o"}
    own["Connection"] = ", ".join(own).lower()
    async with client.session.post(f"{client.url}{path}", json={"instances": [1]}, headers=own):
        [told] = model.seen
    assert (told["X-Tenant"], told["X-Priority"], "X-Other" in told) == ("a", "high", False)
    mixed = [client.predict(n, X_Tenant=tenant) for n, tenant in enumerate(["a", "a", "b"])]
    model.batches.clear()
    await client.together(model, *mixed, queued=2)
    assert [len(each) for each in model.batches] == [1, 2]


async def test_a_tenant_leaves_room_in_the_queue(model, before):
    """Half of it is for others; the flood is told 429, and when to come again."""
    bounds = Bounds(tenant_header="X-Tenant")
    client = await before(more={"max_queue": 4}, bounds=bounds)
    model.gate.clear()
    first = asyncio.ensure_future(client.predict(0, X_Tenant="flood"))
    await until(lambda: model.batches)
    flood = [asyncio.ensure_future(client.predict(n, X_Tenant="flood")) for n in range(3)]
    await until(lambda: any(task.done() for task in flood))
    [refused] = [task for task in flood if task.done()]
    status, answer, headers = await refused
    assert (status, answer["error"]) == (429, "tenant_limit")
    assert int(headers["Retry-After"]) >= 1
    other = asyncio.ensure_future(client.predict(9, X_Tenant="quiet"))
    await until(lambda: client.running.dispatchers["models"].stats().queued == 3)
    model.gate.set()
    answers = await asyncio.gather(first, other, *(task for task in flood if task is not refused))
    assert {status for status, *_ in answers} == {200}


@pytest.mark.parametrize(
    ("headers", "claim"),
    [
        ({}, ("", Priority.NORMAL)),
        ({"x-tenant": "a", "x-priority": " HIGH "}, ("a", Priority.HIGH)),
        ({"x-tenant": "n" * 300, "x-priority": "highest"}, ("n" * 256, Priority.NORMAL)),
    ],
)
def test_what_headers_claim(headers, claim):
    """A name of 256 characters at the most; what is not `high` is normal."""
    assert Claims("X-Tenant", "X-Priority").of(headers) == claim


def test_how_tenants_share_is_said_of_each_route(tmp_path):
    """Weights, the header of priorities, and the ageing."""
    file = tmp_path / "routes.toml"
    file.write_text(
        ROUTE + 'tenant_weights = ["gold=3", "a=b=0.5"]\npriority_header = "X-P"\nageing = "20ms"'
    )
    [route] = read_routes(file, {})
    assert route.fairness == Fairness({"gold": 3.0, "a=b": 0.5}, 0.02)
    assert route.priority_header == "X-P"


@pytest.mark.parametrize(
    "weight", ["gold", "3", "gold=much", "gold=0", "gold=-1", "gold=inf", "gold=nan"]
)
def test_a_weight_that_is_none(tmp_path, weight):
    """In a file and on the command line."""
    file = tmp_path / "routes.toml"
    file.write_text(ROUTE + f'tenant_weights = ["{weight}"]')
    told = f"expected a tenant and its positive weight, gold=3, got '{weight}'"
    with pytest.raises(ConfigError, match=f"tenant_weights: {told}"):
        read_routes(file, {})
    options = ["--upstream", "http://127.0.0.1:1", "--protocol", "tensorflow"]
    result = CliRunner().invoke(main, ["sidecar", *options, "--tenant-weight", weight])
    assert result.exit_code == 2
    assert f"Invalid value for '--tenant-weight': {told}" in " ".join(result.stderr.split())


def test_weights_of_nobody():
    """Without a header no tenant could have his."""
    options = ["--upstream=http://127.0.0.1:1", "--protocol=tensorflow", "--tenant-weight=gold=3"]
    result = CliRunner().invoke(main, ["sidecar", *options])
    assert result.exit_code == 2
    assert "expected --tenant-header as well" in result.output
