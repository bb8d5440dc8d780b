"""`adaptive-batching sidecar` as a program: how it starts, records, ends and makes way."""

import asyncio
import signal
import socket
import subprocess
import sys
from contextlib import asynccontextmanager

import aiohttp
import pytest

from adaptive_batching.cli.options.listening import loop_factory
from adaptive_batching.marshal.admin.admin import Admin
from adaptive_batching.marshal.http.server.server import Server
from adaptive_batching.marshal.http.server.sockets import ListenError, bound_sockets
from adaptive_batching.simulation.traffic.traces import read_trace

SIDECAR = [sys.executable, "-m", "adaptive_batching", "sidecar", "--protocol=tensorflow"]
AS_SYSTEMD_DOES = [
    sys.executable,
    "-c",
    (
        "import os, sys\n"
        "os.dup2(int(sys.argv[1]), 3)\n"
        "os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid()))\n"
        "os.execv(sys.argv[2], sys.argv[2:])"
    ),
]


@asynccontextmanager
async def running(*arguments, start=(), program=SIDECAR, port=0, **how):
    """A sidecar in a process of its own, and what it announces."""
    process = await asyncio.create_subprocess_exec(
        *start, *program, f"--port={port}", *arguments, stdout=subprocess.PIPE, **how
    )
    try:
        url = (await process.stdout.readline()).split()[0].decode()
        yield process, url
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def ended(process):
    """The exit status of one that was told to end."""
    return await process.wait()


@pytest.mark.parametrize(
    ("upstream", "where", "option"),
    [
        ("http://127.0.0.1:8123", ["--port=8123"], "--port"),
        ("http://localhost:8123", ["--host=0.0.0.0", "--port=8123"], "--port"),
        ("http://127.0.0.1:8123", ["--port=0", "--admin-port=8123"], "--admin-port"),
    ],
)
def test_a_sidecar_is_not_its_own_model_server(upstream, where, option):
    """Requests would go round until there is no room for more, or meet the pages of operators."""
    command = [*SIDECAR, f"--upstream={upstream}", *where]
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)
    assert result.returncode == 1
    assert f"got {upstream}, where the sidecar itself is to listen" in result.stderr
    assert f"say another {option}, or" in result.stderr


@pytest.mark.parametrize("loop", ["--uvloop", "--no-uvloop"])
def test_a_shared_port_that_another_one_took(loop):
    """It is told as that of any port that is taken, whatever loop there is."""

    async def listens(ours):
        server = Server(Admin({}))
        try:
            await server.open(*ours.getsockname(), ours)
        finally:
            await server.aclose()

    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        [ours] = bound_sockets("127.0.0.1", port, shares_port=True)
        with ours:
            other.listen()
            told = f"can't listen on 127.0.0.1 port {port}: Address already in use"
            runner = asyncio.Runner(loop_factory=loop_factory(wanted=loop == "--uvloop"))
            with runner, pytest.raises(ListenError, match=told):
                runner.run(listens(ours))


class Visitors:
    """Clients that ask again and again, and start anew when told that their connection closes."""

    def __init__(self, url, count=8):
        self.url = f"{url}/v1/models/m:predict"
        self.answers = 0
        self.stopped = False
        self._group = [self._visit(number) for number in range(count)]

    async def run(self):
        await asyncio.gather(*self._group)

    async def _visit(self, number):
        while not self.stopped:
            async with aiohttp.ClientSession() as session:
                closes = False
                while not (closes or self.stopped):
                    body = {"instances": [number]}
                    async with session.post(self.url, json=body) as response:
                        assert (await response.json()) == {"predictions": [2 * number]}
                        closes = response.headers.get("Connection") == "close"
                        self.answers += 1

    async def answered(self, more):
        """Wait until so many more were answered."""
        until = self.answers + more
        while self.answers < until:  # noqa: ASYNC110  counted by many
            await asyncio.sleep(0.005)


async def test_f24_sigterm_under_load_loses_nothing(model, tmp_path):
    """Not ready at once, open until all has been told, every request answered, exit 0."""
    file = tmp_path / "traffic.csv"
    options = ("--admin-port=0", "--drain-delay=2s", f"--record={file}", "--no-uvloop")
    async with running(f"--upstream={model.url}", *options) as (process, url):
        admin = (await process.stdout.readline()).decode().split("/ ")[0]
        visitors = Visitors(url)
        visiting = asyncio.create_task(visitors.run())
        await visitors.answered(200)
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{admin}/readyz") as response:
                assert response.status == 200
            process.send_signal(signal.SIGTERM)
            status = 200
            while status == 200:
                async with session.get(f"{admin}/readyz") as response:
                    status = response.status
            assert status == 503
        visitors.stopped = True
        await visiting
        assert await ended(process) == 0
    assert len(read_trace(file).times) >= visitors.answers


async def test_each_route_is_recorded_in_a_file_of_its_own(model, tmp_path):
    """Over all reloads, whether its relay is the same or another; who is not named is not."""
    config, a, b = (tmp_path / name for name in ("routes.toml", "a.csv", "b.csv.gz"))
    options = (f"--config={config}", f"--record=a={a}", f"--record=b={b}", "--drain-delay=0s")

    def write(said):
        table = (
            f'protocol = "tensorflow"\nupstreams = ["{model.url}"]\n{said}\nprefix = "/v1/models'
        )
        config.write_text("".join(f'[routes.{name}]\n{table}/{name}"\n' for name in "abc"))

    write("")
    async with (
        running(*options, "--admin-port=0", program=SIDECAR[:4]) as (process, url),
        aiohttp.ClientSession() as session,
    ):
        announced = [(await process.stdout.readline()).decode() for _ in range(3)]
        admin = announced[-1].split("/ ")[0]
        for said in ("max_batch_size = 2", "concurrency = 2", ""):
            for name in "aabc":
                address, body = f"{url}/v1/models/{name}:predict", {"instances": [21]}
                async with session.post(address, json=body) as response:
                    assert await response.json() == {"predictions": [42]}
            write(said)
            async with session.post(f"{admin}/reload") as response:
                assert response.status == 200
        process.send_signal(signal.SIGTERM)
        assert await ended(process) == 0
    assert (len(read_trace(a).times), len(read_trace(b).times)) == (6, 3)
    assert {*tmp_path.iterdir()} == {config, a, b}


async def test_f24_sigterm_releases_what_is_corked(model):
    """A batch that waits for company leaves when none will come."""
    options = ("--policy=window:1h", "--drain-delay=0s")
    async with (
        running(f"--upstream={model.url}", *options) as (process, url),
        aiohttp.ClientSession() as session,
    ):
        body = {"instances": [21]}
        asking = asyncio.create_task(session.post(f"{url}/v1/models/m:predict", json=body))
        await asyncio.sleep(0.1)  # a request that is read after the signal is answered as well
        process.send_signal(signal.SIGTERM)
        async with await asking as response:
            assert await response.json() == {"predictions": [42]}
            assert response.headers["Connection"] == "close"
        assert await ended(process) == 0


@pytest.fixture
def listening():
    """A socket that outlives those who accept from it."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as server:
        yield server


async def test_f25_a_rolling_restart_on_a_socket_that_was_passed(model, listening):
    """Another takes over while clients go on, and none of them sees an error."""
    how = {
        "start": [*AS_SYSTEMD_DOES, str(listening.fileno())],
        "pass_fds": [listening.fileno()],
    }
    option = f"--upstream={model.url}"
    async with running(option, "--drain-delay=0s", **how) as (first, url):
        assert url.endswith(f":{listening.getsockname()[1]}")
        visitors = Visitors(url)
        visiting = asyncio.create_task(visitors.run())
        await visitors.answered(100)
        async with running(option, "--drain-delay=0s", **how) as (second, again):
            assert again == url
            first.send_signal(signal.SIGTERM)
            assert await ended(first) == 0
            await visitors.answered(100)
            visitors.stopped = True
            await visiting
            second.send_signal(signal.SIGTERM)
            assert await ended(second) == 0


async def test_two_on_one_port(model, unused_tcp_port):
    """If both say so; who does not is told that it is taken."""
    option = f"--upstream={model.url}"
    async with running(option, "--reuse-port", port=unused_tcp_port) as (_, url):
        async with running(option, "--reuse-port", port=unused_tcp_port) as (_, again):
            assert again == url
        refused = await asyncio.create_subprocess_exec(
            *SIDECAR, option, f"--port={unused_tcp_port}", stderr=subprocess.PIPE
        )
        _, told = await refused.communicate()
        assert refused.returncode == 1
        assert b"Address already in use" in told


@pytest.mark.parametrize("dashes", ["-", "--"])
async def test_in_place_of_kserves_agent(model, dashes):
    """With its flags, written as Go allows, and what its answers have in them."""
    flags = ["enable-batcher", "max-batchsize=32", "max-latency=500", "port=0"]
    process = await asyncio.create_subprocess_exec(
        *SIDECAR[:4],
        "--compat=kserve-agent",
        *(dashes + flag for flag in flags),
        f"{dashes}component-port",
        str(model.url.port),
        stdout=subprocess.PIPE,
    )
    try:
        url = (await process.stdout.readline()).split()[0].decode()
        async with aiohttp.ClientSession() as session:
            body = {"instances": [21]}
            async with session.post(f"{url}/v1/models/m:predict", json=body) as response:
                answer = await response.json()
                batch = response.headers["X-Batch-Id"]
        assert answer == {"message": "", "batchId": batch, "predictions": [42]}
    finally:
        process.terminate()
        assert await ended(process) == 0
