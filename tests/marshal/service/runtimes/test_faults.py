"""Clients that leave, workers that die, queues that are full."""

import asyncio
import os
import re
import signal
import time

import psutil
import pytest
from yarl import URL

from adaptive_batching.core import JobOutcome
from adaptive_batching.errors import WorkerStartError
from adaptive_batching.marshal.http.error_log import ErrorLog
from adaptive_batching.marshal.service.runtimes.endpoint_runtime import EndpointRuntime
from adaptive_batching.marshal.service.runtimes.endpoint_runtimes import EndpointRuntimes
from adaptive_batching.marshal.service.service import Service
from adaptive_batching.pipeline import Pipeline, Stage
from tests.marshal import apps
from tests.marshal.client import client_of, until


class Puppet:
    """A service with one worker, that answers when it is told to."""

    def __init__(self, **limits):
        self.service = Service()
        self.released = asyncio.Event()
        self.batches = []

        @self.service.endpoint("/", max_batch_size=1, **limits)
        async def handler(items):
            self.batches.append(items)
            await self.released.wait()
            return items


async def test_a_full_queue_refuses_at_once():
    """With a hint when to come back; what was let in is answered."""
    puppet = Puppet(max_queue=1)
    async with client_of(puppet.service) as client:
        running = asyncio.create_task(client.post("/", 1))
        await until(lambda: puppet.batches)
        waiting = asyncio.create_task(client.post("/", 2))
        await until(lambda: client.stats("/").queued == 1)
        refused = await client.post("/", 3)
        assert (refused.status, refused.error) == (503, "queue_full")
        assert int(refused.headers["Retry-After"]) >= 1
        puppet.released.set()
        assert [(await running).json, (await waiting).json] == [1, 2]
    assert puppet.batches == [[1], [2]]


async def test_who_waits_past_the_deadline_hears_504():
    """In the queue as well as in a batch, which is not disturbed."""
    puppet = Puppet(max_latency=0.5)
    async with client_of(puppet.service) as client:
        running = asyncio.create_task(client.post("/", 1))
        # a request that a busy machine reads late never reaches a batch
        await until(lambda: puppet.batches or running.done())
        late = await client.post("/", 2)
        for answer in (late, await running):
            assert (answer.status, answer.error) == (504, "deadline_exceeded")
        puppet.released.set()
        await until(lambda: not client.stats("/").running)


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("X-Request-Timeout-Ms", "500"),
        ("X-Envoy-Expected-Rq-Timeout-Ms", "500"),
        ("grpc-timeout", "500m"),
    ],
)
async def test_a_client_that_waits_for_so_long_only(header, value):
    """It is told when its time is over; what means nothing is ignored."""
    puppet = Puppet(max_latency=60.0)
    async with client_of(puppet.service) as client:
        late = await client.post("/", 1, headers={header: value})
        assert (late.status, late.error) == (504, "deadline_exceeded")
        puppet.released.set()
        assert (await client.post("/", 2, headers={header: "soon"})).json == 2


async def test_the_time_that_a_body_took_counts():
    """`max_latency` begins with the request: who sends slowly has the less time to wait."""
    puppet = Puppet(max_latency=0.1)
    head = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n1"
    async with client_of(puppet.service) as client:
        url = URL(client.running.url)
        reader, writer = await asyncio.open_connection(url.host, url.port)
        writer.write(head)
        await asyncio.sleep(0.15)
        writer.write(b"2")
        answer = await reader.readuntil(b"}")
        writer.close()
    assert answer.startswith(b"HTTP/1.1 504 ")
    assert puppet.batches == []


async def test_a_refusal_of_the_policy_is_a_503():
    """It says when to come again: after the policy's seconds, some more and a spread."""

    class Pessimist:
        def decide(self, situation):
            raise AssertionError

        def observe(self, batch):
            raise AssertionError

        def refuse(self, situation, job):
            return 11.0

    puppet = Puppet(policy=Pessimist(), max_latency=1.0)
    async with client_of(puppet.service) as client:
        refused = await client.post("/", 1)
        assert (refused.status, refused.error) == (503, "overloaded")
        assert 12 <= int(refused.headers["Retry-After"]) <= 18


async def test_a_client_that_leaves_takes_its_item_with_it():
    """In the queue nobody computes it; in a batch its result is thrown away."""
    puppet = Puppet()
    async with client_of(puppet.service) as client:
        running, waiting, patient = (asyncio.create_task(client.post("/", n)) for n in (1, 2, 3))
        await until(lambda: client.stats("/").queued == 2)
        for gone in (running, waiting):
            gone.cancel()
        await until(lambda: client.stats("/").queued == 1)
        puppet.released.set()
        assert (await patient).json == 3
        assert client.stats("/").requests[JobOutcome.CANCELLED] == 2
    assert puppet.batches == [[1], [3]]


async def test_a_killed_worker_fails_only_its_own_batch():
    """Under load: at most one batch hears worker_lost, its successor answers the rest."""
    async with client_of(apps.service) as client:
        pid = (await client.post("/slow", 0)).json
        answers = []

        async def visitor():
            for _ in range(10):
                answers.append(await client.post("/slow", 0))  # noqa: PERF401  each in its turn

        visitors = [asyncio.create_task(visitor()) for _ in range(20)]
        await until(lambda: len(answers) >= 40)
        os.kill(pid, signal.SIGKILL)
        # a new Python has to start, perhaps on a busy machine
        await until(lambda: any(a.status == 200 and a.json != pid for a in answers))
        await asyncio.gather(*visitors)
        lost = [answer for answer in answers if answer.status != 200]
        assert len(answers) == 200
        assert 1 <= len(lost) <= 8
        assert {(answer.status, answer.error) for answer in lost} == {(503, "worker_lost")}
        assert all("Retry-After" in answer.headers for answer in lost)


async def test_a_service_that_cannot_load_does_not_start():
    """Whoever started it hears why."""
    with pytest.raises(WorkerStartError, match="no model"):
        async with client_of(apps.unloadable):
            raise AssertionError


async def test_what_was_read_late_is_refused_instead_of_answered_late():
    """The process stood still; who waited for it longer than he can is told to come again."""
    asked = b"POST /square HTTP/1.1\r\nHost: us\r\nX-Request-Timeout-Ms: %d\r\n"
    asked += b"Content-Length: 1\r\n\r\n4"
    async with client_of(apps.service) as client:
        url = URL(client.running.url)
        reader, writer = await asyncio.open_connection(url.host, url.port)
        for standstill, status in [(0, b"200"), (0.7, b"503"), (0, b"200")]:
            writer.write(asked % (500 if standstill else 300_000))
            time.sleep(standstill)  # noqa: ASYNC251  it is the loop of the service as well
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.split()[1] == status
            await reader.readexactly(int(re.search(rb"Content-Length: (\d+)", head)[1]))
        writer.close()


async def test_a_body_that_arrives_late_never_reaches_the_queue():
    """It is counted as an HTTP response, as what is refused before is, and as no request."""
    head = b"POST /square HTTP/1.1\r\nHost: us\r\nX-Request-Timeout-Ms: 1\r\n"
    head += b"Expect: 100-continue\r\nContent-Length: 1\r\n\r\n"
    async with client_of(apps.service) as client:
        url = URL(client.running.url)
        reader, writer = await asyncio.open_connection(url.host, url.port)
        writer.write(head)
        assert (await reader.readuntil(b"\r\n\r\n")).split()[1] == b"100"
        read = time.monotonic()
        await until(lambda: time.monotonic() > read + 1e-3)
        writer.write(b"4")
        status = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
        assert status in {"504", "503"}  # 503 where the loop of a busy machine lags, too
        writer.close()
        assert not any(client.stats("/square").requests.values())
        counted = f'http_responses_total{{code="{status}",endpoint="/square"}} 1.0'
        assert counted in (await client.get("/metrics")).body.decode()


async def test_an_answer_that_cannot_be_made_is_an_internal_error(caplog, monkeypatch):
    """Whatever is wrong with it, its client does not wait for ever."""
    service = Service()

    @service.endpoint("/")
    async def handler(items):
        return items

    async with client_of(service) as client:
        monkeypatch.setattr(EndpointRuntime, "response", None)
        monkeypatch.setattr(ErrorLog, "answer", None)
        answer = await client.post("/", 1)
    assert (answer.status, answer.json["error"]) == (500, "internal")
    assert "an answer could not be made" in caplog.text


class Unspeakable(Exception):
    """Can neither be printed nor asked whether it is true."""

    def __bool__(self):
        raise RuntimeError("no truth")

    def __repr__(self):
        raise SystemExit(3)

    __str__ = __repr__


@pytest.mark.parametrize("place", ["raised", "returned"])
async def test_an_exception_that_cannot_be_printed_is_logged_all_the_same(caplog, place):
    """Its client gets a 500, the log names its class, and the service goes on."""
    service = Service()

    @service.endpoint("/")
    async def handler(items):
        if "bad" not in items:
            return items
        if place == "raised":
            raise Unspeakable
        return [Unspeakable()]

    async with client_of(service) as client:
        answer = await client.post("/", "bad")
        assert (answer.status, answer.error) == (500, "handler_error")
        assert (await client.post("/", "good")).json == "good"
    assert [each.levelname for each in caplog.records] == ["WARNING"]
    assert "Unspeakable: (its message can't be printed)" in caplog.text


class Loads:
    """A handler that is there at once."""

    def __call__(self, items):
        return items


class LoadsLong(Loads):
    """A handler whose model takes longer than any test waits."""

    def __init__(self):
        time.sleep(600)


@pytest.mark.parametrize("other", [Loads, LoadsLong])
async def test_an_endpoint_that_can_not_start_leaves_none_running(other):
    """The workers of the others are ended, whether they were ready or not, by whoever starts."""
    service, at_work = Service(), []
    service.endpoint("/other")(other)
    service.endpoint("/bad")(apps.Unloadable)
    service.add_pipeline("/staged", Pipeline([Stage(Loads, 4), Stage(sorted)]))
    runtimes = EndpointRuntimes(service, at_work=at_work)
    before = {*psutil.Process().children()}
    with pytest.raises(WorkerStartError, match="no model"):
        await runtimes.start()
    assert at_work == []
    assert {*psutil.Process().children()} <= before
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_an_endpoint_that_can_not_end_leaves_none_running():
    """The others answer what waits and end before its error is raised."""
    puppet = Puppet()
    puppet.service.add_pipeline("/bad", Pipeline([Stage(Loads, 4)]))
    at_work = []
    runtimes = EndpointRuntimes(puppet.service, at_work=at_work)
    await runtimes.start()
    bad = runtimes.by_path["/bad"].backend.dispatchers[0].workers
    ending, failed = bad.aclose, asyncio.Event()

    async def failing():
        await ending()
        failed.set()
        raise OSError("no way to end")

    bad.aclose = failing
    puppet_runtime = runtimes.by_path["/"]
    waiting = asyncio.create_task(puppet_runtime.answer(b"1", 60.0))
    await until(lambda: puppet.batches)
    closing = asyncio.create_task(runtimes.aclose(60.0))
    await failed.wait()
    for _ in range(10):  # turns, in which its error is seen
        await asyncio.sleep(0)
    assert not closing.done()
    puppet.released.set()
    with pytest.raises(OSError, match="no way to end"):
        await closing
    assert await waiting == b"1"
    assert at_work == []
