"""Several model servers behind one queue: who gets what, and what becomes of who fails."""

import asyncio
import json
import socket
import ssl
import subprocess
import threading
import time
from contextlib import AsyncExitStack

import pytest

from adaptive_batching.marshal.sidecar.upstream import directory
from adaptive_batching.marshal.sidecar.upstream import outlier_detection as standings
from adaptive_batching.marshal.sidecar.upstream.addresses import Location
from adaptive_batching.marshal.sidecar.upstream.pool import Upstreams
from adaptive_batching.marshal.sidecar.upstream.tls import tls_context
from adaptive_batching.wire.open_inference import OpenInference
from adaptive_batching.wire.tensorflow import TensorFlowServing
from tests.marshal.admin.test_sidecar import page, samples
from tests.marshal.sidecar.peers.scripted import OK, Exchange, predict, refusing, scripted, url_of
from tests.workers.conditions import until


def answers(status, text="no", headers=b""):
    """The script of a server that always says the same."""

    async def script(exchange):
        body = json.dumps({"error": text}).encode()
        about = b"Content-Type: application/json\r\nContent-Length: %d\r\n" % len(body)
        await exchange.write(b"HTTP/1.1 %d X\r\n%b%b\r\n%b" % (status, headers, about, body))

    return script


def stats(client):
    return client.running.dispatchers["models"].stats()


def server_names(client):
    return list(client.running.dispatchers["models"].workers.servers)


async def in_one_batch(client, gate, *requests, **headers):
    """Let requests wait behind the first, which a server holds until `gate` is set."""
    first = asyncio.ensure_future(client.predict(0))
    await until(lambda: stats(client).running == 1)
    rest = [asyncio.ensure_future(client.predict(each, **headers)) for each in requests]
    await until(lambda: stats(client).queued == len(requests))
    gate.set()
    await first
    return await asyncio.gather(*rest)


class Gated:
    """A script that waits for its gate before the first answer, and then follows another."""

    def __init__(self, script):
        self.gate = asyncio.Event()
        self._script = script

    async def __call__(self, exchange):
        await self.gate.wait()
        await (predict if exchange.number == 0 else self._script)(exchange)


async def test_one_queue_for_all(before):
    """Each server has its batches at a time; the rest waits until one of them is done."""
    async with AsyncExitStack() as stack:
        gates = [Gated(predict), Gated(predict)]
        servers = [await stack.enter_async_context(scripted(gate)) for gate in gates]
        client = await before(servers=[each.url for each in servers], more={"concurrency": 2})
        asked = []
        while len(asked) < 4:
            asked.append(asyncio.ensure_future(client.predict(len(asked))))
            await until(lambda: stats(client).running == len(asked))
        asked += [asyncio.ensure_future(client.predict(n)) for n in range(4, 12)]
        await until(lambda: stats(client).queued == 8)
        gates[1].gate.set()
        got = await asyncio.gather(*asked[4:])
        assert [answer["predictions"] for _, answer, _ in got] == [[2 * n] for n in range(4, 12)]
        assert sorted(map(len, servers[1].bodies)) == [1, 1, 8]
        gates[0].gate.set()
        await asyncio.gather(*asked)


async def test_a_unix_socket(before, tmp_path):
    """Requests for batches and others reach a server that has no port."""
    async with scripted(predict, path=str(tmp_path / "model.sock")) as server:
        client = await before(servers=[server.url])
        assert (await client.predict(4))[1] == {"predictions": [8]}
        body = {"instances": [3]}
        async with client.session.put(f"{client.url}/elsewhere", json=body) as response:
            assert await response.json() == {"predictions": [6]}
        assert b"PUT /elsewhere" in server.exchanges[-1].head


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Paths of a certificate for 127.0.0.1 that nobody knows, and of its key."""
    folder = tmp_path_factory.mktemp("tls")
    made = [folder / "certificate.pem", folder / "key.pem"]
    subprocess.run(
        ["openssl", "req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt",
         "ec_paramgen_curve:P-256", "-subj", "/CN=model", "-addext",
         "subjectAltName=IP:127.0.0.1,DNS:models.test", "-days", "2",
         "-out", made[0], "-keyout", made[1]],
        check=True, capture_output=True,
    )  # fmt: skip
    return made


@pytest.mark.parametrize("host", ["127.0.0.1", "models.test"])
async def test_tls(before, certificate, host, names, caplog):
    """A server is believed to be who it is if the certificate says so, and not otherwise."""
    names["models.test"] = ["127.0.0.1"]
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(*certificate)
    async with scripted(predict, ssl=serving) as server:
        url = f"https://{host}:{server.port}"
        knowing = ssl.create_default_context(cafile=certificate[0])
        client = await before(servers=[url], more={"tls": knowing})
        assert (await client.predict(4))[1] == {"predictions": [8]}
        assert client.url.replace("http://", "Host: ").encode() in server.exchanges[0].head
        assert (await page(client, "/readyz?deep=1"))[0] == 200
        assert "can't be reached" not in caplog.text
        stranger = await before(servers=[url])
        assert (await page(stranger, "/readyz?deep=1"))[0] == 503
        told = "can't be reached: [SSL: CERTIFICATE_VERIFY_FAILED]"
        await until(lambda: told in caplog.text)
        status, answer, _ = await stranger.predict(4)
        assert (status, answer["error"]) == (502, "upstream_lost")


class Names(dict):
    """Addresses by name.

    Attributes:
        looked_up: Which names were asked for.
        slow: By name, what each look-up of it acquires first.
        waiting: The slow names that were asked for.
    """

    def __init__(self):
        super().__init__()
        self.looked_up, self.slow, self.waiting = [], {}, []


@pytest.fixture
def names(monkeypatch):
    """Addresses by name; looked up every 20 ms."""
    known = Names()
    real = socket.getaddrinfo

    def look_up(host, port, *args, **kwargs):
        if host not in known:
            return real(host, port, *args, **kwargs)
        if host in known.slow:
            known.waiting.append(host)
            known.slow[host].acquire()
        known.looked_up.append(host)
        if not known[host]:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (to, port)) for to in known[host]]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(directory, "_RESOLVED_EVERY", 0.02)
    return known


async def test_a_name_with_several_addresses(before, names):
    """Each is a server, and gets places; one that comes later too, and one that goes has none."""
    names["models.test"] = ["127.0.0.1"]
    async with scripted(predict) as one:
        client = await before(servers=[f"http://models.test:{one.port}"])
        assert (await client.predict(1))[0] == 200
        assert client.url.replace("http://", "Host: ").encode() in one.exchanges[0].head
        names["models.test"] = ["127.0.0.1", "127.0.0.2"]
        await until(lambda: stats(client).workers == 2)
        names["models.test"] = []
        looked_up = len(names.looked_up)
        await until(lambda: len(names.looked_up) > looked_up + 2)
        assert stats(client).workers == 2  # who can't be looked up is where it was
        names["models.test"] = ["127.0.0.1"]
        await until(lambda: stats(client).workers == 1)
        for n in range(5):
            assert (await client.predict(n))[1] == {"predictions": [2 * n]}


async def test_a_new_address_while_another_name_is_looked_up(before, names):
    """Requests go to the servers that are known until all names have been looked up."""
    names["one.test"] = names["other.test"] = ["127.0.0.1"]
    slow = threading.Semaphore(0)
    async with scripted(predict) as one:
        locations = [f"http://{name}.test:{one.port}" for name in ("one", "other")]
        client = await before(servers=locations)
        names.slow["other.test"] = slow
        try:
            await until(lambda: len(names.waiting) == 1)
            names["one.test"] = ["127.0.0.2"]
            slow.release()
            await until(lambda: len(names.waiting) == 2)
            body = {"instances": [3]}
            async with client.session.put(f"{client.url}/elsewhere", json=body) as response:
                assert (response.status, await response.json()) == (200, {"predictions": [6]})
            assert (await page(client, "/metrics"))[0] == 200
        finally:
            names.slow.clear()
            slow.release()
        await until(lambda: f"http://127.0.0.2:{one.port}" in server_names(client))


async def test_a_server_that_goes_and_comes_back(before, names):
    """It has the place that it had, though a batch was in it all the while, and no more."""
    gated = Gated(predict)
    async with scripted(gated) as one:
        names["models.test"] = ["127.0.0.1"]
        client = await before(servers=[f"http://models.test:{one.port}"])
        first = asyncio.ensure_future(client.predict(1))
        await until(lambda: stats(client).running == 1)
        for _ in range(3):
            names["models.test"] = ["127.0.0.2"]
            await until(lambda: server_names(client) == [f"http://127.0.0.2:{one.port}"])
            names["models.test"] = ["127.0.0.1"]
            await until(lambda: server_names(client) == [one.url])
        names["models.test"] = ["127.0.0.1", "127.0.0.3"]
        await until(lambda: len(server_names(client)) == 2)
        assert len(stats(client).per_worker) == 2
        gated.gate.set()
        assert (await first)[1] == {"predictions": [2]}


async def test_one_of_two_is_not_there(before, monkeypatch):
    """Nobody notices; it gets batches again once it is there."""
    monkeypatch.setattr(standings, "_BASE_EJECTION_TIME", 0.2)
    monkeypatch.setattr(standings, "_FIRST_PAUSE", 0.001)
    with refusing() as port:
        async with scripted(predict) as one:
            client = await before(servers=[url_of(port), one.url])
            for n in range(30):
                assert (await client.predict(n))[1] == {"predictions": [2 * n]}
            async with scripted(predict, sock=port) as other:
                while not other.exchanges:
                    assert (await client.predict(1))[0] == 200
                await until(lambda: stats(client).workers == 2)


async def test_all_of_several_are_not_there(before, monkeypatch, caplog):
    """The log says once of each what that means for batches, however many requests come."""
    monkeypatch.setattr(standings, "_FIRST_PAUSE", 0.001)
    with refusing() as one, refusing() as other:
        client = await before(servers=[url_of(one), url_of(other)])
        for n in range(30):
            assert (await client.predict(n))[0] == 502
    first, last = (line for line in caplog.messages if "failed too often" in line)
    assert first.endswith(": it gets no batches for 30 s, the others do")
    assert last.endswith(": no server is left, each gets one batch in turn until one answers")


async def test_f12_one_of_two_is_slow(before):
    """Nothing is wrong with it, but once that is proven it gets what the other can't take."""

    async def slow(exchange):
        await asyncio.sleep(0.04)
        await exchange.predict()

    async with scripted(slow) as one, scripted(predict) as other:
        client = await before(servers=[one.url, other.url])
        for n in range(40):
            await client.predict(n)
        assert 5 <= len(one.exchanges) <= 10
        assert len(other.exchanges) >= 30


@pytest.mark.parametrize("status", [500, 404, 400, 302])
async def test_f12_one_of_two_is_broken(before, status):
    """It answers at once, but with nothing but errors: it is left alone, and the others go on."""
    async with scripted(answers(status)) as one, scripted(predict) as other:
        client = await before(servers=[one.url, other.url])
        statuses = [(await client.predict(n))[0] for n in range(60)]
        assert len(one.exchanges) <= 20
        assert statuses[-20:] == [200] * 20
        assert len(other.exchanges) >= 40


@pytest.mark.parametrize(("status", "text"), [(507, "no"), (500, "CUDA out of memory")])
async def test_f12_one_of_two_has_no_memory_at_all(before, status, text):
    """Not even for a request alone, be it one of many at first: the other one gets the batches."""
    async with scripted(answers(status, text)) as one, scripted(predict) as other:
        client = await before(servers=[one.url, other.url], max_batch_size=4)
        rounds = 0
        while (await samples(client))["upstream_state", "models", "ejected", one.url] != 1:
            await asyncio.gather(*map(client.predict, range(8)))
            rounds += 1
            assert rounds < 100
        got = await asyncio.gather(*map(client.predict, range(8)))
        assert [each for each, *_ in got] == [200] * 8


@pytest.mark.parametrize("text", [b"hello", b'{"predictions": [1]}'])
async def test_f12_one_of_two_answers_with_what_is_for_nobody(before, text):
    """Its batches are answered by the other one, it is ejected, and batches go on."""

    async def garbles(exchange):
        await exchange.write(OK + b"Content-Length: %d\r\n\r\n" % len(text) + text)

    async with scripted(garbles) as one, scripted(predict) as other:
        client = await before(servers=[one.url, other.url], max_batch_size=4)

        async def ejected():
            """Asks for more than a batch may have; to one alone its server may say anything."""
            answers = await asyncio.gather(*(client.predict(*range(8)) for _ in range(3)))
            expected = (200, {"predictions": [2 * n for n in range(8)]})
            assert [answer[:2] for answer in answers] == [expected] * 3
            return (await samples(client))["upstream_state", "models", "ejected", one.url]

        rounds = 0
        while not await ejected():
            rounds += 1
            assert rounds < 100
            await asyncio.sleep(0.05)
        assert (await samples(client))["upstream_keys_apart", "models"] == 0
        assert max(map(len, other.bodies)) == 4
        asked = len(one.exchanges)
        await ejected()
        assert len(one.exchanges) == asked


async def test_f12_two_that_answer_with_another_number_of_results(before):
    """They agree, so it is the kind of request that goes alone, and none of them is at fault."""

    async def sums_up(exchange):
        body = b'{"predictions": [%d]}' % sum(json.loads(exchange.body)["instances"])
        await exchange.write(OK + b"Content-Length: %d\r\n\r\n" % len(body) + body)

    async with scripted(sums_up) as one, scripted(sums_up) as other:
        client = await before(servers=[one.url, other.url], max_batch_size=4)
        status, answer, _ = await client.predict(*range(9))
        assert (status, answer) == (200, {"predictions": [36]})
        seen = await samples(client)
        assert seen["upstream_keys_apart", "models"] == 1
        answers = await asyncio.gather(*map(client.predict, range(8)))
        assert [answer["predictions"] for _, answer, _ in answers] == [[n] for n in range(8)]


async def test_f11_one_of_two_has_no_time(before, caplog):
    """Its batch goes to the other one, and so do the next while it wants to be left alone."""
    busy = answers(503, headers=b"Retry-After: 30\r\n")
    async with scripted(busy) as one, scripted(predict) as other:
        client = await before(servers=[one.url, other.url])
        for n in range(10):
            assert (await client.predict(n))[1] == {"predictions": [2 * n]}
        assert len(one.exchanges) == 1
    assert "has no time, and says to come again in 30 s" in caplog.text


async def test_f11_nobody_has_time(before):
    """Who can wait is answered later; who waits for ever is told what the server said."""
    exchanges = []

    async def script(exchange):
        exchanges.append(exchange)
        refuse = answers(429, headers=b"Retry-After: 0\r\n")
        await (refuse if len(exchanges) <= 3 else predict)(exchange)

    async with scripted(script) as server:
        client = await before(servers=[server.url])
        status, _, headers = await client.predict(1)
        assert (status, headers["Retry-After"]) == (429, "0")
        status, answer, _ = await client.predict(2, X_Request_Timeout_Ms="5000")
        assert (status, answer) == (200, {"predictions": [4]})
        assert server.bodies == [[1], [2], [2], [2]]


@pytest.mark.parametrize(
    "date",
    [b"Sun, 22 Nov 2026 15:00:00", b"Sun, 22 Nov 99999999999 15:00:00 GMT", b"soon"],
    ids=["without a zone", "in no calendar", "no date"],
)
async def test_f11_when_to_come_again_can_not_be_told(before, date):
    """What the server said is what its client gets, as if it had not said when."""
    about = b"Retry-After: " + date + b"\r\nDate: Sun, 22 Nov 2026 15:00:00 GMT\r\n"
    async with scripted(answers(503, headers=about)) as server:
        client = await before(servers=[server.url])
        status, answer, headers = await client.predict(1)
    assert (status, answer, headers["Retry-After"]) == (503, {"error": "no"}, date.decode())


async def test_f11_too_long_for_those_who_wait(before):
    """While no server wants to be asked, who can't wait for that is refused in an instant."""
    async with scripted(answers(503, headers=b"Retry-After: 20\r\n")) as server:
        client = await before(servers=[server.url])
        await client.predict(1)
        status, answer, headers = await client.predict(2, X_Request_Timeout_Ms="5000")
        assert (status, answer["error"]) == (503, "no_workers")
        assert 15 <= int(headers["Retry-After"]) <= 35
        assert len(server.exchanges) == 1


@pytest.mark.parametrize(
    "refusal",
    [answers(507), answers(500, "CUDA out of memory. Tried to allocate 2 GiB")],
    ids=["507", "text"],
)
async def test_too_little_memory(before, refusal):
    """Halves are tried until there is room, and later batches are no larger."""

    async def script(exchange):
        items = len(json.loads(exchange.body)["instances"])
        await (refusal if items > 4 else predict)(exchange)

    gated = Gated(script)
    async with scripted(gated) as server:
        client = await before(servers=[server.url])
        got = await in_one_batch(client, gated.gate, *range(1, 17))
        assert [answer["predictions"] for _, answer, _ in got] == [[2 * n] for n in range(1, 17)]
        assert sorted(map(len, server.bodies)) == [1, 4, 4, 4, 4, 8, 8, 16]
        got = await asyncio.gather(*map(client.predict, range(20)))
        assert [status for status, *_ in got] == [200] * 20
        assert max(map(len, server.bodies[8:])) <= 4


@pytest.mark.parametrize("status", [401, 403, 404, 501])
async def test_what_is_said_to_all(before, status):
    """A status that is no single item's fault is not asked for twice."""
    gated = Gated(answers(status, "not here"))
    async with scripted(gated) as server:
        client = await before(servers=[server.url])
        got = await in_one_batch(client, gated.gate, 1, 2, 3)
        assert [(each, answer) for each, answer, _ in got] == [(status, {"error": "not here"})] * 3
        assert server.bodies == [[0], [1, 2, 3]]


@pytest.mark.parametrize("status", [400, 413, 422, 500])
async def test_t10_a_bad_item(before, status):
    """Who is to blame gets the server's own words, and the others their answers."""

    async def script(exchange):
        bad = 3 in json.loads(exchange.body)["instances"]
        await (answers(status, "three") if bad else predict)(exchange)

    for idempotent in (True, False):
        gated = Gated(script)
        async with scripted(gated) as server:
            client = await before(servers=[server.url], more={"idempotent": idempotent})
            got = await in_one_batch(client, gated.gate, 1, 2, 3, 4)
            told = [status, 200] if idempotent else [status, status]
            assert [each for each, *_ in got] == [told[1], told[1], told[0], told[1]]
            assert got[2][1] == {"error": "three"}
            assert len(server.exchanges) == (6 if idempotent else 2)


async def test_t18_a_server_that_always_fails(before):
    """It is asked a fifth more often than there are batches, a hundred times, and ten a second.

    What it says of a batch is told to nobody: it may be about another's request.
    """

    async def names(exchange):
        """An error about the first of a batch."""
        first, *_ = json.loads(exchange.body)["instances"]
        await answers(500, f"not {first}")(exchange)

    async with scripted(names) as server:
        client = await before(servers=[server.url], max_batch_size=8)
        begin = time.monotonic()
        for _ in range(40):
            for number, got in enumerate(await asyncio.gather(*map(client.predict, range(20)))):
                status, answer, headers = got
                if status == 503:
                    assert (answer["error"], "Retry-After" in headers) == ("overloaded", True)
                else:
                    assert (status, answer) == (500, {"error": f"not {number}"})
        verdicts = {each.value: n for each, n in stats(client).verdicts.items()}
        first = sum(n for each, n in stats(client).releases.items() if each.value != "bisect")
        assert verdicts["over_budget"]
        granted = 100 + 10 * (time.monotonic() - begin)  # ten a second
        assert len(server.exchanges) <= 1.2 * first + granted


def test_where_a_server_can_be():
    """What is neither a URL without a path nor a socket is told, with what was expected."""
    for text in [
        "ftp://a",
        "http://a/b",
        "http://",
        "http://a:0",
        "unix:relative",
        "a:80",
        "http://u:p@a",
        "//a",
        "http://[::1",
    ]:
        with pytest.raises(ValueError, match="expected http://HOST:PORT"):
            Location.parse(text)
    for path in ["/" + "x" * 107, "/a\0b"]:
        with pytest.raises(ValueError, match="expected the path of a socket, of 1 to 107 bytes"):
            Location.parse(f"unix:{path}")
    assert str(Location.parse("unix:/run/m.sock")) == "unix:/run/m.sock"
    assert [Location.parse(f"http://{each}").changes for each in ("a", "10.0.0.1", "[::1]")] == [
        True,
        False,
        False,
    ]


def test_files_that_hold_no_certificates(tmp_path, certificate):
    """The error names the setting and the file."""
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    for key, *files in [
        ("upstream_ca", empty, None),
        ("upstream_cert", None, empty),
        ("upstream_cert", None, certificate[0]),
    ]:
        with pytest.raises(ValueError, match=rf"{key}: expected a PEM file of .*pem"):
            tls_context(*files)
    assert tls_context(None, None) is None
    assert tls_context(certificate[0], None) is not None


@pytest.mark.parametrize("text", ["http://a..b", "http://a b", "http://*:80", "http://" + 64 * "a"])
def test_what_can_not_be_the_name_of_a_host(text):
    """Waiting for its address would be in vain."""
    with pytest.raises(ValueError, match="expected the name of a host"):
        Location.parse(text)


@pytest.mark.parametrize("form", [TensorFlowServing(), OpenInference()])
async def test_a_name_that_has_no_address_yet(before, names, caplog, form):
    """The sidecar starts, says so once, and has a server as soon as there is an address."""
    names["nowhere.test"] = []
    caplog.set_level("INFO")
    async with scripted(predict) as one:
        named = f"http://nowhere.test:{one.port}"
        client = await before(servers=[named], form=form)
        assert (await page(client, "/readyz"))[0] == 200
        assert (await page(client, "/readyz?deep=1"))[0] == 503
        for method, path in [("GET", "/v1/models/m"), ("POST", "/v1/models/m:predict")]:
            async with client.session.request(
                method, f"{client.url}{path}", json={"instances": [1]}
            ) as response:
                assert response.status == 502
                assert (await response.json())["error"] == "upstream_lost"
        looked_up = len(names.looked_up)
        await until(lambda: len(names.looked_up) > looked_up + 2)
        assert caplog.text.count("has no address: ") == 1
        assert f"upstream {named} has no address: " in caplog.text
        assert not one.exchanges
        names["nowhere.test"] = ["127.0.0.1"]
        await until(lambda: f"{named} has an address now" in caplog.text)
        assert "has gone" not in caplog.text
        assert stats(client).workers == 1
        assert (await client.predict(1))[1] == {"predictions": [2]}


async def test_one_of_two_names_has_no_address(before, names):
    """The other one has all requests."""
    names["nowhere.test"] = []
    async with scripted(predict) as one:
        client = await before(servers=["http://nowhere.test", one.url])
        for n in range(5):
            assert (await client.predict(n))[1] == {"predictions": [2 * n]}
        assert len(one.exchanges) == 5


async def test_counts_of_the_log_are_written_when_closing_is_cut_short(caplog):
    """As by a second Ctrl-C, while a server that was asked for its models says nothing."""
    async with scripted(Exchange.for_ever) as silent:
        server = Location.parse(silent.url)
        upstreams = Upstreams([server], concurrency=1, timeout=1, max_answer=1, has_models=True)
        await upstreams.start(lambda: None)
        await upstreams.models.learn("/v2/models/m/infer", {}, 0.0)
        logged = upstreams._logged
        assert [logged.begins("failed alike") for _ in range(3)] == [True, False, False]
        closing = asyncio.ensure_future(upstreams.aclose())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)
        assert closing.cancelled()
        assert "2 more kinds of requests failed alike" in caplog.text
        await upstreams.aclose()
