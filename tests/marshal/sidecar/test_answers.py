"""How answers of a batch are written: in one piece for most clients, with care for the others."""

import pytest

from adaptive_batching.errors import UpstreamBroken
from adaptive_batching.marshal.sidecar.response_splitting import ResponseSplitting
from adaptive_batching.marshal.sidecar.upstream.messages import Reply
from adaptive_batching.wire.exchange import Message
from tests.marshal.sidecar.peers.raw import exchange, parsed
from tests.marshal.sidecar.peers.scripted import scripted

BODY = b'{"instances": [21]}'


def request(*headers, version=b"1.1", body=BODY):
    lines = [b"POST /v1/models/m:predict HTTP/" + version, b"Host: here", *headers]
    length = b"Content-Length: %d" % len(body)
    return b"\r\n".join([*lines, length, b"", body])


@pytest.mark.parametrize(
    ("headers", "version", "closes"),
    [
        ([], b"1.1", False),
        ([b"Connection: close"], b"1.1", True),
        ([], b"1.0", True),
        ([b"Connection: keep-alive"], b"1.0", False),
    ],
)
async def test_every_version_of_http(model, before, headers, version, closes):
    """The same status, body and facts about the batch; who wants to go on talking may."""
    client = await before()
    last = [] if closes else [request(b"Connection: close")]
    stream = await exchange(client.url, request(*headers, version=version), *last)
    answers = parsed(stream)
    assert len(answers) == (1 if closes else 2)
    for answer in answers:
        assert answer.status == 200
        assert answer.body == b'{"predictions": [42]}'
        assert answer.headers["Content-Type"] == "application/json; charset=utf-8"
        assert answer.headers["X-Batch-Size"] == "1"


@pytest.mark.parametrize("headers", [[], [b"Connection: close"]])
async def test_an_error_without_a_type_gets_none(before, headers):
    """As mosec answers: its clients are told what it says, and no more."""

    async def refuses(server):
        await server.write(b"HTTP/1.1 422 Nonsense\r\nContent-Length: 3\r\n\r\nbad")

    async with scripted(refuses) as server:
        client = await before(server=server.url)
        last = [] if headers else [request(b"Connection: close")]
        answers = parsed(await exchange(client.url, request(*headers), *last))
    assert len(answers) == 1 + len(last)
    for answer in answers:
        assert (answer.status, answer.body) == (422, b"bad")
        assert answer.headers["X-Batch-Size"] == "1"
        assert not {"Content-Type", "Server"} & set(answer.headers)


async def test_a_sidecar_that_ends_closes_its_connections(model, before):
    """With the next answer, which says so, to a batch or passed on: clients look elsewhere."""
    client = await before()
    client.running.announce_end()
    [answer] = parsed(await exchange(client.url, request()))
    assert answer.headers["Connection"] == "close"
    assert answer.body == b'{"predictions": [42]}'
    [answer] = parsed(await exchange(client.url, b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n"))
    assert answer.headers["Connection"] == "close"
    assert answer.body == b"GET /x 0"


def test_members_of_a_batch_share_the_headers_of_the_server_and_no_others():
    """The next batch has its own, and one that can't be said spoils no other."""
    splitting = ResponseSplitting()

    def answer(headers, name):
        return splitting.response_to_one(Reply(200, Message(b"1", headers), 7, 2, 0.1), name, 0.3)

    of_a_batch = {"content-type": "application/json", "set-cookie": "a=b"}
    one, other = answer(of_a_batch, "one"), answer(of_a_batch, "other")
    assert [each.headers["X-Request-Id"] for each in (one, other)] == ["one", "other"]
    assert one.headers.keys() == other.headers.keys()
    assert "Set-Cookie" not in one.headers
    alone = splitting.response_to_one(
        Reply(200, Message(b"1", of_a_batch, 200), 7, 1, 0.1), "", 0.3
    )
    assert alone.headers["Set-Cookie"] == "a=b"
    assert "Set-Cookie" not in answer(of_a_batch, "one").headers
    for _ in range(2):
        with pytest.raises(UpstreamBroken):
            answer({"content-type": "a\nb"}, "another")
    assert answer({"content-type": "text/plain"}, "last").headers["Content-Type"] == "text/plain"
