"""One item in, its own result out."""

import asyncio
import os
import pickle

import numpy as np
import pytest

from adaptive_batching.marshal.service.service import Service
from adaptive_batching.workers.placement import Threads
from tests.marshal import apps
from tests.marshal.client import client_of, until


async def test_a_class_runs_in_a_process_of_its_own():
    """Every caller of a batch gets its own result, as JSON and under an id."""
    async with client_of(apps.service) as client:
        answers = await asyncio.gather(*(client.post("/square", n) for n in range(20)))
        assert [answer.json for answer in answers] == [n * n for n in range(20)]
        assert {answer.status for answer in answers} == {200}
        assert {answer.headers["Content-Type"] for answer in answers} == {"application/json"}
        assert len({answer.headers["X-Request-Id"] for answer in answers}) == 20
        assert client.stats("/square").batches < 20


async def test_functions_run_in_threads_and_coroutines_on_the_loop():
    """They need not be importable; what is decorated stays as it is."""
    service = Service()

    @service.endpoint("/def")
    def double(numbers):
        return 2 * np.array(numbers)

    @service.endpoint("/async", workers=2)
    async def triple(numbers):
        await asyncio.sleep(0)
        return [3 * number for number in numbers]

    @service.endpoint("/placed", workers=Threads(2))
    def same(items):
        return items

    assert double([1]).tolist() == [2]
    async with client_of(service) as client:
        assert (await client.post("/def", 1)).json == 2
        assert (await client.post("/async", 1)).json == 3
        assert (await client.post("/placed?what=ever", {"a": [1, None]})).json == {"a": [1, None]}


async def test_a_service_on_a_core_of_its_own():
    """While it runs; its workers are free of it."""
    before = os.sched_getaffinity(0)
    core = min(before)
    async with apps.service.running(cpus=[core]) as running:
        assert os.sched_getaffinity(0) == {core}
        (worker,) = running.dispatchers["/square"].workers.pids
        assert os.sched_getaffinity(worker) == before
    assert os.sched_getaffinity(0) == before


async def test_examples_come_as_json():
    """A handler is warmed up with what its clients will send; what no client could is refused."""
    service = Service()
    batches = []

    @service.endpoint("/", max_batch_size=2, examples=[{"text": "a"}])
    async def handler(items):
        batches.append(items)
        return items

    a = {"text": "a"}
    async with client_of(service) as client:
        assert batches == [[a], [a, a]] * 3
        assert client.stats("/").fixed > 0
    with pytest.raises(TypeError, match="no form for complex"):
        service.endpoint("/other", examples=[1j])(apps.Square)


async def test_the_next_batch_leaves_before_answers_are_written():
    """Its worker does not stand idle while the loop writes the answers of the last one."""
    service = Service()
    answered = []

    @service.endpoint("/one", max_batch_size=1)
    async def one(items):
        await until(lambda: client.stats("/one").queued == 2 - len(answered))
        answered.append(client.running.metrics.responses["/one"].total())
        return items

    async with client_of(service) as client:
        await asyncio.gather(*(client.post("/one", number) for number in range(3)))
    assert answered == [0, 0, 1]


@pytest.fixture
def faulty():
    """A service whose only item kind is trouble, in a process, four at a time."""
    service = Service()
    service.endpoint("/faulty", max_batch_size=4, policy="window:1h")(apps.Faulty)
    return service


async def together(client, *items):
    """Send items that fill one batch."""
    return await asyncio.gather(*(client.post("/faulty", item) for item in items))


async def test_one_bad_item_harms_nobody_else(faulty):
    """Malformed, failed and unwritable items get their errors, their batchmates their results."""
    async with client_of(faulty) as client:
        answers = await together(client, b"[NaN]", "error", "nan", "good")
        assert [answer.status for answer in answers] == [400, 500, 500, 200]
        codes = [answer.error for answer in answers[:3]]
        assert codes == ["malformed", "handler_error", "bad_batch_result"]
        assert answers[3].json == "good"
        assert client.stats("/faulty").batches == 1


@pytest.mark.parametrize(
    ("culprit", "status", "code"),
    [
        ("raise", 500, "handler_error"),
        ("short", 500, "bad_batch_result"),
        ("die", 503, "worker_lost"),
    ],
)
async def test_what_fails_a_whole_batch(faulty, culprit, status, code, caplog):
    """Everybody gets the same code, nobody the text; the next batch is answered."""
    async with client_of(faulty) as client:
        answers = await together(client, culprit, 1, 2, 3)
        assert {(answer.status, answer.error) for answer in answers} == {(status, code)}
        assert b"secret" not in b"".join(answer.body for answer in answers)
        answers = await together(client, 1, 2, 3, 4)
        assert [answer.json for answer in answers] == [1, 2, 3, 4]
    logged = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    told = [message for message in logged if code in message]
    assert len([message for message in told if "more like it" not in message]) == 1


async def test_every_503_says_when_to_come_back(faulty):
    """In whole seconds, not less than what the error says."""
    async with client_of(faulty) as client:
        answers = await together(client, "full", 1, 2, 3)
        assert answers[0].error == "queue_full"
        assert int(answers[0].headers["Retry-After"]) >= 7


async def test_pickles_are_never_unpickled(tmp_path):
    """Whatever the headers say, a body is JSON or refused."""
    canary = tmp_path / "canary"

    class Exploit:
        def __reduce__(self):
            return canary.touch, ()

    async with client_of(apps.service) as client:
        for kind in ("json", "x-pickle", "vnd.bentoml+pickle", "python-pickle", "octet-stream"):
            headers = {
                "Content-Type": f"application/{kind}",
                "Payload-Container": "PickleContainer",
                "Args-Number": "1",
            }
            answer = await client.post("/square", pickle.dumps(Exploit()), headers=headers)
            refused = (400, "malformed"), (415, "unsupported_media_type")
            assert (answer.status, answer.error) == refused[kind not in {"json", "octet-stream"}]
    assert not canary.exists()


@pytest.mark.parametrize(
    "path", ["predict", "/a?b", "/a b", "/a\n", "/{name}", "/healthz", "/square"]
)
def test_paths_that_cannot_be(path):
    """The mistake is found where it is made."""
    service = Service()
    service.endpoint("/square")(apps.Square)
    with pytest.raises(ValueError, match="path"):
        service.endpoint(path)


def test_other_mistakes_in_the_decorator():
    """Also before anything runs."""
    service = Service()
    with pytest.raises(ValueError, match="policy"):
        service.endpoint("/a", policy="psychic")
    with pytest.raises(ValueError, match="max_latency"):
        service.endpoint("/a", max_latency=0)
    with pytest.raises(ValueError, match="only worker processes"):
        service.endpoint("/a", cpus=[0])(lambda items: items)
    with pytest.raises(ValueError, match="Processes"):
        service.endpoint("/a", cpus=[0], workers=Threads(1))(lambda items: items)
    with pytest.raises(TypeError, match="path: expected something like /predict, got 5"):
        service.endpoint(5)
    with pytest.raises(ValueError, match="max_body: expected at least 1, got 0"):
        service.endpoint("/a", max_body=0)
    with pytest.raises(ValueError, match="max_body: expected at most max_queue_bytes=1073741824"):
        service.endpoint("/a", max_body=2**31)
    with pytest.raises(TypeError, match="max_body: expected an integer, got '1MB'"):
        service.endpoint("/a", max_body="1MB")


@pytest.mark.parametrize(
    ("how", "largest"),
    [
        ({}, 8 * 2**20),
        ({"key": "X-Model"}, 8 * 2**20),
        ({"key": lambda item: item}, 2**20),
        ({"cost": lambda item: item}, 2**20),
        ({"cost": "bytes"}, 8 * 2**20),
        ({"key": lambda item: item, "max_body": 2**24}, 2**24),
    ],
)
def test_bodies_that_are_read_by_the_process_of_all_connections(how, largest):
    """They are smaller by default, for nothing else is answered meanwhile."""
    service = Service()
    service.endpoint("/", **how)(apps.Square)
    assert [endpoint.max_body for endpoint in service] == [largest]


def test_mistakes_in_a_service():
    """What was expected, and what was there."""
    with pytest.raises(ValueError, match="max_in_flight: expected at least 1, got 0"):
        Service(max_in_flight=0)
    for odd in (None, True):  # True counts as 1 in arithmetic, but is meant for something else
        with pytest.raises(TypeError, match=f"max_in_flight: expected an integer, got {odd}"):
            Service(max_in_flight=odd)
        with pytest.raises(TypeError, match=f"max_queue_bytes: expected an integer, got {odd}"):
            Service(max_queue_bytes=odd)
        with pytest.raises(TypeError, match=f"body_timeout: expected seconds, or .* got {odd}"):
            Service(body_timeout=odd)
    for timeout in (-1, 0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="body_timeout: expected a positive number of seconds"):
            Service(body_timeout=timeout)
    with pytest.raises(ValueError, match="body_timeout: expected a duration with a unit"):
        Service(body_timeout="10")


class TakesTwo:
    def __call__(self, items, model):
        return items


class TakesNone:
    def __call__(items):  # noqa: N805  the mistake that is meant
        return items


class TakesMore:
    def __call__(self, items, *, model="small", **rest):
        return items


class NotCallable:
    pass


@pytest.mark.parametrize(
    ("handler", "got"),
    [
        (TakesTwo, r"\(self, items\) in a class, got TakesTwo.__call__\(self, items, model\)"),
        (TakesNone, r"got TakesNone.__call__\(items\)"),
        (NotCallable, r"expected NotCallable to define __call__\(self, items\)"),
        (lambda items, model: items, r"\(items\).*, got .*<lambda>\(items, model\)"),
        (lambda: None, r"<lambda>\(\)"),
        (lambda items, *, model: items, r"<lambda>\(items, \*, model\)"),
    ],
)
def test_handlers_that_are_not_called_with_a_list(handler, got):
    """Found when they are registered, not when the first request comes."""
    with pytest.raises(TypeError, match=got):
        Service().endpoint("/a")(handler)


@pytest.mark.parametrize("handler", [TakesMore, lambda *items: items, sorted, np.square])
def test_handlers_that_can_be_called_with_a_list(handler):
    """Whatever else they would take."""
    service = Service()
    service.endpoint("/a")(handler)
    assert [each.path for each in service] == ["/a"]
