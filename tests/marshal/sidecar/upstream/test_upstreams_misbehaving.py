"""Servers that do not answer as they should: what each of their faults means for a client.

Threats T9 and T18 and faults F10, F11 and F13 of the reliability plan, on real sockets.
"""

import asyncio
import gzip
import json

import pytest

from tests.marshal.sidecar.peers.scripted import OK, predict, refusing, scripted, url_of

IN_CHUNKS = b"Transfer-Encoding: chunked\r\n\r\n4\r\noops\r\n0\r\n\r\n"
LOST, BROKEN, LATE = (
    (502, "upstream_lost"),
    (502, "upstream_broken"),
    (504, "worker_timeout"),
)


def writes(data, then="hang_up"):
    """A script that writes something and does something."""

    async def script(exchange):
        await exchange.write(data)
        if then == "for_ever":
            await exchange.for_ever()
        getattr(exchange, then)()

    return script


async def resets_at_once(exchange):
    exchange.reset()


async def hangs_up_at_once(exchange):
    exchange.hang_up()


async def says_nothing(exchange):
    await exchange.for_ever()


async def drips_headers(exchange):
    for byte in OK * 100:
        await exchange.write(bytes([byte]))
        await asyncio.sleep(0.02)


async def drips_a_body(exchange):
    await exchange.write(OK + b"Content-Length: 100000\r\n\r\n")
    for _ in range(1000):
        await exchange.write(b" ")
        await asyncio.sleep(0.02)


async def has_always_more_to_come(exchange):
    while True:
        await exchange.write(b"HTTP/1.1 102 Processing\r\n\r\n")
        await asyncio.sleep(0.001)


CHUNKED = b"Transfer-Encoding: chunked\r\n"
PACKED = gzip.compress(b'{"predictions":[2]}')
FAULTS = {
    "resets": (resets_at_once, LOST, 2),
    "hangs up": (hangs_up_at_once, LOST, 2),
    "half a head": (writes(OK[:30]), LOST, 2),
    "half a body": (writes(OK + b'Content-Length: 50\r\n\r\n{"predictions"'), BROKEN, 1),
    "half a body and a reset": (writes(OK + b"Content-Length: 50\r\n\r\n{", "reset"), BROKEN, 1),
    "a chunk is cut": (writes(OK + CHUNKED + b'\r\n20\r\n{"predictions"'), BROKEN, 1),
    "chunks without an end": (writes(OK + CHUNKED + b"\r\n1\r\n{\r\n"), BROKEN, 1),
    "no HTTP": (writes(b"SSH-2.0-OpenSSH_9.2p1\r\n\r\n"), BROKEN, 1),
    "length and chunks": (
        writes(OK + b"Content-Length: 5\r\n" + CHUNKED + b"\r\n5\r\nhello\r\n0\r\n\r\n"),
        BROKEN,
        1,
    ),
    "two lengths": (
        writes(OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} "),
        BROKEN,
        1,
    ),
    "a huge head": (writes(OK + b"X: " + b"x" * 100_000 + b"\r\n\r\n"), BROKEN, 1),
    "silence": (says_nothing, LATE, 1),
    "slow headers": (drips_headers, LATE, 1),
    "a slow body": (drips_a_body, LATE, 1),
    "a flood of 1xx": (has_always_more_to_come, LATE, 1),
    "a redirect": (
        writes(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"),
        BROKEN,
        1,
    ),
    "a coding": (
        writes(OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(PACKED) + PACKED),
        BROKEN,
        1,
    ),
    "a coding on its way": (
        writes(
            OK
            + b"Transfer-Encoding: gzip, chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n"
            % (len(PACKED), PACKED)
        ),
        BROKEN,
        1,
    ),
    "a huge answer": (writes(OK + b"Content-Length: 1000000000\r\n\r\n", "for_ever"), BROKEN, 1),
    "an endless answer": (
        writes(OK + CHUNKED + b"\r\n" + b"1000\r\n%b\r\n" % (b" " * 0x1000) * 100, "for_ever"),
        BROKEN,
        1,
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_f10_a_fault_of_the_server(before, fault):
    """Status and code say what it was; it is asked again only if it said nothing at all."""
    script, expected, asked = FAULTS[fault]
    async with scripted(script) as server:
        timeout = 1.0 if expected is LATE else 60.0
        client = await before(
            servers=[server.url], more={"timeout": timeout, "max_answer": 100_000}
        )
        status, answer, _ = await client.predict(1)
        assert (status, answer["error"]) == expected
        assert len(server.exchanges) == asked
        server.script = predict
        assert (await client.predict(1))[:2] == (200, {"predictions": [2]})


@pytest.mark.parametrize("path", ["predict", "generate"])
@pytest.mark.parametrize(
    "head", [b"HTTP/1.1 200 OK\r\nContent-Length: %d" % (2**64 - 1), b"HTTP/1.1 099 No\r\nX: y"]
)
async def test_f9_a_head_that_is_understood_in_two_ways(before, head, path):
    """No client gets a length without its body, after which its next answer would be the body."""
    async with scripted(writes(head + b"\r\n\r\n", "for_ever")) as server:
        client = await before(servers=[server.url])
        url = f"{client.url}/v1/models/m:{path}"
        async with client.session.post(url, json={"instances": [1]}) as response:
            assert response.status == 502
            assert (await response.json())["error"] == "upstream_broken"


@pytest.mark.parametrize("fault", ["resets", "hangs up"])
async def test_f10_what_may_have_run_is_not_sent_again(before, fault):
    """If the operator says that requests are not idempotent."""
    async with scripted(FAULTS[fault][0]) as server:
        client = await before(servers=[server.url], more={"idempotent": False})
        assert (await client.predict(1))[0] == 502
        assert len(server.exchanges) == 1


@pytest.mark.parametrize(("idempotent", "lost", "asked"), [(True, 1, 9), (False, 12, 1)])
@pytest.mark.parametrize("fault", ["resets", "hangs up"])
async def test_f10_a_server_that_hangs_up_over_one_request(before, fault, idempotent, lost, asked):
    """Its neighbours in the batch are answered, unless requests may not be sent twice."""

    async def dies_of_seven(exchange):
        instances = json.loads(exchange.body)["instances"]
        await (FAULTS[fault][0] if 7 in instances else predict)(exchange)

    async with scripted(dies_of_seven) as server:
        client = await before(
            servers=[server.url], policy="window:1h", max_batch_size=12,
            more={"idempotent": idempotent},
        )  # fmt: skip
        answers = await asyncio.gather(*(client.predict(number) for number in range(12)))
        assert len(server.exchanges) == asked
    statuses = {number: status for number, (status, *_) in enumerate(answers)}
    assert list(statuses.values()).count(502) == lost
    assert (statuses[7], answers[7][1]["error"]) == LOST


async def test_f10_a_body_where_there_is_none(before):
    """204 has no body; what comes all the same is not taken for the next answer."""
    smuggled = OK + b'Content-Length: 17\r\n\r\n{"predictions":0}'
    async with scripted(writes(b"HTTP/1.1 204 No Content\r\n\r\n" + smuggled)) as server:
        client = await before(servers=[server.url])
        url = f"{client.url}/v1/models/m:predict"
        async with client.session.post(url, json={"instances": [1]}) as response:
            assert (response.status, await response.read()) == (204, b"")
        server.script = predict
        assert (await client.predict(1))[1] == {"predictions": [2]}


async def test_f10_more_than_one_answer(before):
    """What follows an answer is not taken for the next one."""
    body = b'{"predictions": [2]}'
    answer = OK + b"Content-Length: %d\r\n\r\n" % len(body) + body
    async with scripted(writes(answer + answer.replace(b"2]", b"9]"))) as server:
        client = await before(servers=[server.url])
        assert (await client.predict(1))[1] == {"predictions": [2]}
        server.script = predict
        assert (await client.predict(3))[1] == {"predictions": [6]}


async def test_f10_a_connection_that_is_closed_as_it_is_used(before):
    """Keep-alive ends when the server wants; nobody notices."""

    async def script(exchange):
        if exchange.number == 1:
            exchange.hang_up()
        else:
            await exchange.predict()

    async with scripted(script) as server:
        client = await before(servers=[server.url])
        for number in range(3):
            assert (await client.predict(number))[1] == {"predictions": [2 * number]}
        assert server.bodies == [[0], [1], [1], [2]]


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_f10_many_connections_that_were_closed_while_nobody_asked(before, method):
    """A server that stood still ends all that waited too long: no client gets to know."""
    used, together = set(), asyncio.Barrier(4)

    async def script(exchange):
        if exchange._writer in used:
            return exchange.hang_up()
        used.add(exchange._writer)
        if exchange.number < together.parties:
            await together.wait()
        if exchange.body:
            return await exchange.predict()
        return await exchange.write(OK + b"Content-Length: 2\r\n\r\n{}")

    async with scripted(script) as server:
        client = await before(servers=[server.url], more={"concurrency": 4}, max_batch_size=1)

        async def ask(number):
            if method == "POST":
                return (await client.predict(number))[:2]
            async with client.session.get(f"{client.url}/health") as response:
                return response.status, await response.json()

        await asyncio.gather(*map(ask, range(together.parties)))
        for number in range(8):
            status, answer = await ask(number)
            assert status == 200, answer


@pytest.mark.parametrize(
    ("path", "idempotent", "asked"),
    [
        ("/v1/models/m:predict", True, 2),
        ("/v1/models/m:predict", False, 1),
        ("/v2/repository/models/m/load", True, 1),
    ],
)
async def test_f10_what_is_passed_on_is_sent_again_if_that_does_no_harm(
    before, path, idempotent, asked
):
    """That is for the operator to say of inference; what else a POST does, nobody knows."""
    async with scripted(resets_at_once) as server:
        client = await before(servers=[server.url], more={"idempotent": idempotent})
        async with client.session.post(client.url + path, data=b"no JSON") as response:
            assert response.status == 502
        assert [exchange.body for exchange in server.exchanges] == [b"no JSON"] * asked


async def test_t9_a_redirect_is_not_followed(before):
    """Whatever is behind it is not contacted."""
    async with scripted(predict) as canary:
        head = f"HTTP/1.1 307 Go\r\nLocation: {canary.url}/\r\nContent-Length: 0\r\n\r\n"
        async with scripted(writes(head.encode())) as server:
            client = await before(servers=[server.url])
            assert (await client.predict(1))[0] == 502
        assert canary.exchanges == []


async def test_f13_nobody_is_there(before):
    """It is said at once, and all is well as soon as the server is."""
    with refusing() as port:
        client = await before(servers=[url_of(port)])
        for _ in range(20):
            assert (await client.predict(1))[0] == 502
        async with scripted(predict, sock=port):
            assert (await client.predict(1))[0] == 200


@pytest.mark.parametrize("path", ["/v1/models/m:predict", "/v1/models/m:generate"])
@pytest.mark.parametrize("length", [b"Content-Length: 4\r\n\r\noops", IN_CHUNKS])
async def test_no_other_request_follows_a_500_on_its_connection(before, path, length):
    """Uvicorn hangs up after one without having said so: the next would be lost."""

    async def fails_first(exchange):
        if exchange.number:
            await exchange.predict()
            return
        await exchange.write(b"HTTP/1.1 500 Internal Server Error\r\n" + length[:-4])
        await exchange.write(length[-4:])

    async with scripted(fails_first) as server:
        client = await before(server=server.url)
        statuses = []
        for _ in range(3):
            body = {"instances": [1]}
            async with client.session.post(f"{client.url}{path}", json=body) as response:
                statuses.append(response.status)
                await response.read()
        writers = [exchange._writer for exchange in server.exchanges]
    assert statuses == [500, 200, 200]
    assert writers[0] not in writers[1:]
