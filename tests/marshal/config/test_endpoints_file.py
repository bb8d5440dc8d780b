"""Policy and limits in a file, which is written anew while the service is at work."""

import asyncio
import os
from contextlib import AsyncExitStack

import aiohttp
import pytest
from click.testing import CliRunner

from adaptive_batching.cli.commands.serve import command
from adaptive_batching.errors import ConfigError
from adaptive_batching.marshal.config.endpoints_file import EndpointsFile
from adaptive_batching.marshal.service.runner import Running
from adaptive_batching.marshal.service.service import Service
from adaptive_batching.marshal.service.shared_workers import SharedWorkers
from adaptive_batching.pipeline import Pipeline, Stage
from tests.marshal.client import Client, until


@pytest.fixture
def written(tmp_path):
    """Write the file; returns its path."""
    path = tmp_path / "service.toml"

    def write(text):
        fresh = tmp_path / "fresh.toml"
        fresh.write_text(text)
        os.replace(fresh, path)  # as editors and Kubernetes do
        return path

    return write


def one_endpoint(batches, **how):
    service = Service()

    @service.endpoint("/double", **how)
    async def double(items):
        batches.append(len(items))
        return [2 * item for item in items]

    return service


@pytest.fixture
async def at_work(written):
    """Start a service with a file; returns a client of it."""
    async with AsyncExitStack() as stack:

        async def start(service, text, **how):
            running = Running(service.description, file=EndpointsFile(written(text)), **how)
            stack.push_async_callback(running.stop, 1.0)
            await running.start("127.0.0.1", 0)
            return Client(running, await stack.enter_async_context(aiohttp.ClientSession()))

        yield start


PATIENT = '[endpoints."/double"]\npolicy = "window:1h"\nmax_batch_size = 4\n'
HASTY = '[endpoints."/double"]\npolicy = "greedy"\nmax_batch_size = 4\nmax_body = 10\n'


async def test_the_file_is_stronger_than_the_module(at_work):
    """What it does not say is as the module says."""
    batches = []
    client = await at_work(one_endpoint(batches, max_batch_size=2, max_queue=7), PATIENT)
    answers = await asyncio.gather(*(client.post("/double", n) for n in range(4)))
    assert [answer.json for answer in answers] == [0, 2, 4, 6]
    assert batches == [4]
    assert client.running.dispatchers["/double"].limits.max_queue == 7


async def test_the_most_that_a_batch_may_cost_changes(at_work, written):
    """What comes meets the new limit, and an item that is larger alone is refused."""
    batches = []
    table = '[endpoints."/double"]\nmax_batch_size = 3\nmax_batch_cost ='
    service = one_endpoint(batches, cost=float)
    client = await at_work(service, f'{table} 100\npolicy = "window:1h"\n')

    async def three():
        return [
            each.json
            for each in await asyncio.gather(*(client.post("/double", 4) for _ in range(3)))
        ]

    assert await three() == [8, 8, 8]
    written(f'{table} 5\npolicy = "greedy"\n')
    await until(lambda: client.running.dispatchers["/double"].limits.costs.max_batch_cost == 5)
    assert (await client.post("/double", 6)).status == 413
    assert await three() == [8, 8, 8]
    assert batches == [3, 1, 1, 1]


async def test_a_cost_needs_a_function(at_work):
    """The file can't say what an item costs."""
    text = '[endpoints."/double"]\nmax_batch_cost = 100\n'
    message = r"max_batch_cost: expected none of an endpoint without cost=.*, got 100"
    with pytest.raises(ConfigError, match=message):
        await at_work(one_endpoint([]), text)


async def test_a_new_policy_releases_who_waits(at_work, written):
    """Requests that wait are released by the new policy; the next ones meet the new limits."""
    batches = []
    service = one_endpoint(batches)
    client = await at_work(service, PATIENT)
    waiting = [asyncio.create_task(client.post("/double", n)) for n in range(3)]
    await until(lambda: client.stats("/double").queued == 3)
    written(HASTY)
    assert [(await each).json for each in waiting] == [0, 2, 4]  # seen within a second
    await client.running.refresh()
    assert sum(batches) == 3
    too_large = await client.post("/double", "longer than ten bytes")
    assert (too_large.status, too_large.error) == (413, "body_too_large")


async def test_under_load(at_work, written):
    """Ten times to and fro, and every request is answered."""
    batches, answers = [], []
    client = await at_work(one_endpoint(batches), HASTY)
    over = asyncio.Event()

    async def visit():
        while not over.is_set():
            answers.append((await client.post("/double", 21)).json)

    visitors = [asyncio.create_task(visit()) for _ in range(8)]
    for size in range(1, 11):
        before = len(answers)
        written(f'[endpoints."/double"]\nmax_batch_size = {size}\nmax_latency = "{size}s"\n')
        await client.running.refresh()
        assert client.running.dispatchers["/double"].limits.max_batch_size == size
        await until(lambda before=before: len(answers) > before + 8)
    over.set()
    await asyncio.gather(*visitors)
    assert {*answers} == {42}


async def test_a_file_that_is_wrong_changes_nothing(at_work, written, caplog):
    """Operators are told, in the log and by POST /reload."""
    batches = []
    client = await at_work(one_endpoint(batches), HASTY, admin=("127.0.0.1", 0))
    written('[endpoints."/double"]\npolicy = "psychic"\n')
    async with client.session.post(f"{client.running.admin_url}/reload") as response:
        assert response.status == 500
        told = await response.json()
        assert told["error"] == "bad_config"
        assert 'service.toml: endpoints."/double".policy: expected' in told["message"]
    written('[endpoints."/triple"]\n')
    await until(lambda: "there is no endpoint /triple" in caplog.text)
    assert (await client.post("/double", 1)).json == 2


async def test_a_body_that_memory_has_no_room_for(written):
    """The largest one of an endpoint has to fit into the service's limit."""
    service = Service(max_queue_bytes=1000)
    service.endpoint("/double", max_body=1000)(lambda items: items)
    file = EndpointsFile(written('[endpoints."/double"]\nmax_body = 1001\n'))
    with pytest.raises(ConfigError, match=r"/double: max_body: expected at most max_queue_bytes"):
        Running(service.description, file=file)


async def test_endpoints_that_share_workers_have_limits_of_their_own(at_work, written):
    """The policy is the workers'."""
    service, shared = Service(), SharedWorkers()
    for path in ("/a", "/b"):

        @service.endpoint(path, workers=shared)
        async def same(items):
            return items

    client = await at_work(service, '[endpoints."/a"]\nmax_batch_size = 3\n')
    sizes = {path: each.limits.max_batch_size for path, each in client.running.dispatchers.items()}
    assert sizes == {"/a": 3, "/b": 64}
    written('[endpoints."/b"]\nmax_batch_size = 5\n')
    await client.running.refresh()
    sizes = {path: each.limits.max_batch_size for path, each in client.running.dispatchers.items()}
    assert sizes == {"/a": 64, "/b": 5}
    written('[endpoints."/b"]\npolicy = "greedy"\n')
    with pytest.raises(ConfigError, match="it is that of SharedWorkers"):
        await client.running.refresh()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[routes.a]\n", 'expected [endpoints."/path"] only, got routes'),
        (
            '[endpoints."/square"]\nmax_batchsize = 3\n',
            "unknown field 'max_batchsize': expected such as max_batch_size",
        ),
        ('[endpoints."/square"]\nmax_latency = 3\n', "max_latency: "),
        ('[endpoints."/square"]\nmax_batch_size = 0\n', "max_batch_size: "),
        ("[endpoints", "expected TOML"),
    ],
)
def test_mistakes_in_the_file(written, text, message):
    """One sentence, before anything is started."""
    options = ["tests.marshal.apps:service", f"--config={written(text)}"]
    result = CliRunner().invoke(command, options)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


async def test_a_pipeline_has_no_limits_of_its_own(written):
    """Its stages have."""
    service = Service()
    service.add_pipeline("/staged", Pipeline([Stage(sorted)]))
    file = EndpointsFile(written('[endpoints."/staged"]\nmax_batch_size = 3\n'))
    with pytest.raises(ConfigError, match="expected nothing of a pipeline"):
        Running(service.description, file=file)


@pytest.mark.parametrize("said", ["'8,16'", "[8, 16]"])
async def test_a_model_that_pads_by_itself(at_work, written, said):
    """The file says its sizes as the log does; batches go as they are, and count as they run."""
    batches = []
    client = await at_work(one_endpoint(batches, max_batch_size=4), "")
    limits = client.running.dispatchers["/double"].limits
    assert (limits.max_batch_size, limits.sizes) == (4, ())
    written(f'[endpoints."/double"]\nsizes = {said}\n')
    await client.running.refresh()
    limits = client.running.dispatchers["/double"].limits
    assert (limits.max_batch_size, limits.sizes) == (16, (8, 16))
    assert (await client.post("/double", 1)).json == 2
    assert batches == [1]
    told, _ = client.running.metrics.exposition("text/plain")
    assert b'batch_padded_items_total{endpoint="/double"} 8.0' in told


def test_sizes_of_a_module_are_those_of_its_handler(written):
    """It is filled up to them, whatever the file says; of the file's own one is the largest."""
    service = one_endpoint([], sizes=[1, 2, 4])
    file = EndpointsFile(written('[endpoints."/double"]\nsizes = "1,4"'))
    message = r"sizes: expected none, for batches are filled up to sizes=\[1, 2, 4\] of the module"
    with pytest.raises(ConfigError, match=message):
        file.applied(service)
    written('[endpoints."/double"]\nsizes = []')
    with pytest.raises(ConfigError, match=r"sizes: .*such as 1,2,4,8, got \[\]"):
        file.applied(service)
    written('[endpoints."/double"]\nsizes = "1,4,8"\nmax_batch_size = 4')
    [endpoint] = file.applied(one_endpoint([]))
    assert (endpoint.limits.max_batch_size, endpoint.limits.sizes) == (4, (1, 4, 8))


def test_a_batch_size_that_the_handler_does_not_take(written):
    """Where an endpoint has sizes, the file chooses one of them."""
    service = one_endpoint([], sizes=[1, 2, 4])
    file = EndpointsFile(written('[endpoints."/double"]\nmax_batch_size = 3'))
    message = r"max_batch_size: expected one of sizes=\[1, 2, 4\], .* got 3"
    with pytest.raises(ConfigError, match=message):
        file.applied(service)
    written('[endpoints."/double"]\nmax_batch_size = 2')
    [endpoint] = file.applied(service)
    assert (endpoint.limits.max_batch_size, endpoint.limits.sizes) == (2, (1, 2, 4))
