"""What a sidecar answers does not depend on whether aiohttp made a task for the request."""

import asyncio

import pytest

from adaptive_batching.marshal.config.limits import Bounds

_VARIES = {"date", "server", "x-request-id", "x-batch-id", "server-timing", "retry-after"}
_JSON = {"Content-Type": "application/json"}

CASES = {
    "an answer": b'{"instances": [1, "a"]}',
    "the server's own error": b'{"instances": ["bad"]}',
    "not for a batch": b'{"instances": 1}',
    "nothing": b"",
    "no JSON": b"nonsense",
    "too large for a batch": b'{"instances": [%d]}' % 10**200,
    "in pieces": b'{"instances": [1, 2, 3, 4, 5]}',
    "never in pieces": b'{"instances": [%b]}' % b",".join([b"1"] * 20),
}


def shown(headers):
    """Those that say the same for every answer of a kind."""
    named = [(name.lower(), value) for name, value in headers.items()]
    return sorted(each for each in named if each[0] not in _VARIES)


class NoFastPath:
    """Everybody needs more than that."""

    pressed = False

    def turn_away(self, *_about):
        return None

    def begin(self, *_about):
        return None


async def asked_both_ways(client, body, **headers):
    """What is said to the same request, first on the fast path, then on the usual one."""
    url, answers = f"{client.url}/v1/models/m:predict", []
    server = client.running._listener._server
    for fast_path in (client.running._sidecar, NoFastPath()):
        for connection in server.connections:
            connection._fast_path = fast_path
        server._connection.keywords["fast_path"] = fast_path
        async with client.session.post(url, data=body, headers=_JSON | headers) as response:
            said = await response.read()
            said = said.replace(response.headers.get("X-Request-Id", "-").encode(), b"")
            answers.append((response.status, said, shown(response.headers)))
    return answers


@pytest.mark.parametrize("body", CASES.values(), ids=CASES)
async def test_answers_are_those_of_the_usual_path(model, before, body):
    """Status, body and headers, and the server sees the same."""
    client = await before(max_batch_size=4, max_body=200, more={"max_queue": 16})
    one, other = await asked_both_ways(client, body)
    assert one == other
    half = len(model.seen) // 2
    assert list(map(shown, model.seen[:half])) == list(map(shown, model.seen[half:]))
    [counted] = [each for each in client.running.metrics.responses.values() if each]
    assert list(counted.values()) == [2]


async def test_a_server_that_is_not_there(before, unused_tcp_port):
    """The same 502."""
    client = await before(servers=[f"http://127.0.0.1:{unused_tcp_port}"])
    one, other = await asked_both_ways(client, CASES["an answer"])
    assert one == other
    assert one[0] == 502


@pytest.mark.parametrize(
    ("bounds", "status"),
    [(Bounds(tenant_header="X-Tenant", max_per_tenant=1), 429), (Bounds(max_in_flight=1), 503)],
)
async def test_one_too_many(model, before, bounds, status):
    """Refused the same, and all are forgotten when they have left."""
    client = await before(bounds=bounds)
    model.gate.clear()
    first = asyncio.ensure_future(client.predict(1))
    while not model.batches:  # noqa: ASYNC110  it has no event
        await asyncio.sleep(0.001)
    one, other = await asked_both_ways(client, CASES["an answer"])
    assert one == other
    assert one[0] == status
    model.gate.set()
    assert (await first)[0] == 200
    one, other = await asked_both_ways(client, CASES["an answer"])
    assert (one[0], other[0]) == (200, 200)
    assert client.running.metrics.held_bytes() == 0
