"""`adaptive-batching serve` as a program: how it starts, how it refuses to, how it ends."""

import asyncio
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import click
import pytest
import trustme
from click.testing import CliRunner

from adaptive_batching.cli import main
from adaptive_batching.cli.commands import serve
from adaptive_batching.cli.commands.serve import command
from adaptive_batching.marshal.http.run import _told_to_stop
from adaptive_batching.simulation.traffic.traces import read_trace
from tests.programs import told_to_end

SERVE = [sys.executable, "-m", "adaptive_batching", "serve"]


PASSING = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[2], sys.argv[2:])
"""


@asynccontextmanager
async def served(target, *options, where="--port=0", stderr=None):
    """A service in a process of its own, and where it listens."""
    process = await asyncio.create_subprocess_exec(
        *SERVE, target, where, *options, stdout=subprocess.PIPE, stderr=stderr
    )
    try:
        line = await process.stdout.readline()
        url = line.split()[1].decode().rpartition("/")[0]
        async with aiohttp.ClientSession() as session:
            yield process, url, session
            await process.stdout.read()
            await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.parametrize("loop", ["--uvloop", "--no-uvloop"])
async def test_on_a_unix_socket(loop, tmp_path):
    """Another service is told that it is taken; at the end its file is gone."""
    path = tmp_path / "digits.sock"
    where = f"--unix-socket={path}"
    options = (loop, "--drain-delay=0s")
    async with served("tests.marshal.apps:corked", *options, where=where) as (process, url, _):
        assert url == f"http://unix:{path}:"
        taken = await asyncio.create_subprocess_exec(
            *SERVE, "tests.marshal.apps:corked", where, stderr=subprocess.PIPE
        )
        assert (
            f"can't listen on unix:{path}: another process" in (await taken.stderr.read()).decode()
        )
        assert await taken.wait() == 1
        async with (
            aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(path))) as session,
            session.post("http://digits/slow", json=1) as response,
        ):
            assert response.status == 200
        process.send_signal(signal.SIGTERM)
    assert process.returncode == 0
    assert not path.exists()


async def test_a_model_that_recompiles_meets_no_new_size():
    """It tells the requests that met one, and after its warm-up of its sizes there are none."""
    async with served("tests.workers.sized:recompiling") as (process, url, session):

        async def same(number):
            async with session.post(f"{url}/same", json=number) as response:
                return response.status, await response.json()

        waiting = []
        for number in range(120):
            await asyncio.sleep(0.05 if number % 12 in {0, 1, 4} else 0)
            waiting.append(asyncio.ensure_future(same(number)))
        assert await asyncio.gather(*waiting) == [(200, number) for number in range(120)]
        process.send_signal(signal.SIGTERM)
    assert process.returncode == 0


async def answers_on(passed, url, connector, *options):
    """Pass a socket that listens to a service as systemd does; see it answer and end."""
    start = [sys.executable, "-c", PASSING, str(passed.fileno())]
    process = await asyncio.create_subprocess_exec(
        *start,
        *(*SERVE, "tests.marshal.apps:corked", "--drain-delay=0s", *options),
        pass_fds=[passed.fileno()],
    )
    async with told_to_end(process), aiohttp.ClientSession(connector=connector) as session:
        await until_ready(session, url)
        async with session.post(f"{url}/slow", json=1) as response:
            assert response.status == 200


async def test_on_a_unix_socket_that_systemd_passes(tmp_path):
    """It is systemd's, and stays."""
    path = tmp_path / "passed.sock"
    with socket.socket(socket.AF_UNIX) as passed:
        passed.bind(str(path))
        passed.listen()
        await answers_on(passed, "http://digits", aiohttp.UnixConnector(str(path)))
    assert path.exists()


@pytest.mark.parametrize("loop", ["--uvloop", "--no-uvloop"])
async def test_by_tls_on_a_socket_that_systemd_passes(tmp_path, loop):
    """Clients that came before the service had started get their handshake and their answer."""
    authority, pem = trustme.CA(), tmp_path / "server.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(pem))
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    with socket.create_server(("127.0.0.1", 0)) as passed:
        url = f"https://127.0.0.1:{passed.getsockname()[1]}"
        connector = aiohttp.TCPConnector(ssl=trusting)
        await answers_on(passed, url, connector, f"--tls-cert={pem}", loop)


@pytest.mark.parametrize("loop", ["--uvloop", "--no-uvloop"])
async def test_sigterm_under_load_loses_nothing(loop):
    """Every request on an accepted connection gets its answer; the last one closes it."""
    options = (loop, "--drain-delay=300ms")
    async with served("tests.marshal.apps:service", *options) as (process, url, session):
        answers = []
        warm = asyncio.Event()

        async def visitor(number):
            while True:
                async with session.post(f"{url}/square", json=number) as response:
                    answers.append((response.status, number, await response.json()))
                    if len(answers) >= 200:
                        warm.set()
                    if response.headers.get("Connection") == "close":
                        return

        visitors = [asyncio.create_task(visitor(number)) for number in range(20)]
        await warm.wait()
        process.send_signal(signal.SIGTERM)
        await asyncio.gather(*visitors)
        assert all(status == 200 and answer == n * n for status, n, answer in answers)
    assert process.returncode == 0


@pytest.mark.parametrize("loop", ["--uvloop", "--no-uvloop"])
async def test_what_a_handler_prints_is_logged(loop):
    """Under the name of its worker."""
    told = served("tests.marshal.apps:talkative", loop, stderr=subprocess.PIPE)
    async with told as (process, _, _):
        log = await process.stderr.readuntil(b"weights of 2026\n")
        assert b" INFO adaptive_batching.workers.Talkative.0 weights of 2026" in log
        process.send_signal(signal.SIGTERM)


async def test_sigterm_releases_what_is_corked():
    """A batch that would have waited for an hour leaves at once."""
    options = ("--drain-delay=0s",)
    async with served("tests.marshal.apps:corked", *options) as (process, url, session):
        posts = [asyncio.create_task(session.post(f"{url}/corked", json=n)) for n in range(5)]
        queued = b'adaptive_batching_queue_items{endpoint="/corked"} 5.0'
        while True:
            async with session.get(f"{url}/metrics") as metrics:
                if queued in await metrics.read():
                    break
        process.send_signal(signal.SIGTERM)
        for post in posts:
            async with await post as response:
                assert (response.status, await response.json()) == (200, 5)
    assert process.returncode == 0


async def test_a_second_signal_ends_it_at_once():
    """For whoever does not want to wait for the last answers."""
    options = ("--drain-delay=1h",)
    async with served("tests.marshal.apps:service", *options) as (process, url, session):
        process.send_signal(signal.SIGINT)
        while True:
            async with session.get(f"{url}/readyz") as response:
                if response.status == 503:
                    break
        process.send_signal(signal.SIGINT)
    assert process.returncode == -signal.SIGINT


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_while_workers_load(number):
    """It ends as well as later on: nobody is waiting, and the exit status is 0."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        *SERVE, "tests.marshal.apps:loading", f"--port={port}"
    )
    try:
        async with aiohttp.ClientSession() as session:
            url = f"http://127.0.0.1:{port}"
            await until_alive(session, url)
            async with session.post(f"{url}/", json=1) as response:
                assert (response.status, (await response.json())["error"]) == (503, "no_workers")
            process.send_signal(number)
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_sighup_renews_the_workers_under_load():
    """Another process answers in the end, and meanwhile every request was answered."""
    options = ("--drain-delay=0s",)
    async with served("tests.marshal.apps:service", *options) as (process, url, session):
        pids = []
        answered = asyncio.Event()

        async def visitor():
            while len(set(pids)) < 2:
                async with session.post(f"{url}/slow", json=1) as response:
                    assert response.status == 200
                    pids.append(await response.json())
                    answered.set()

        visitors = [asyncio.create_task(visitor()) for _ in range(4)]
        await answered.wait()
        process.send_signal(signal.SIGHUP)
        await asyncio.gather(*visitors)
        process.send_signal(signal.SIGTERM)
    assert process.returncode == 0


FRAGILE = """
from pathlib import Path
from adaptive_batching import Service

service = Service()

@service.endpoint("/")
class Echo:
    def __init__(self):
        if Path("broken").exists():
            raise RuntimeError("the weights are missing")

    def __call__(self, items):
        return items
"""


@pytest.fixture
def breaks(tmp_path, monkeypatch):
    """Call it, and the service in the current directory loads no more."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fragile_service.py").write_text(FRAGILE)
    return (tmp_path / "broken").touch


async def test_a_restart_that_fails_changes_nothing(breaks):
    """The log says why, and the old worker goes on."""
    target, options = "fragile_service:service", ("--drain-delay=0s",)
    async with served(target, *options, stderr=subprocess.PIPE) as (process, url, session):
        breaks()
        process.send_signal(signal.SIGHUP)
        log = await process.stderr.readuntil(b"RuntimeError: the weights are missing")
        assert b"ERROR adaptive_batching the restart stopped after 0 of 1 workers" in log
        async with session.post(f"{url}/", json=21) as response:
            assert await response.json() == 21
        process.send_signal(signal.SIGTERM)
    assert process.returncode == 0


async def test_a_marshal_on_a_core_of_its_own():
    """The process that answers connections is pinned; its workers are not, unless they are told."""
    cores = os.sched_getaffinity(0)
    options = (f"--marshal-cpus={min(cores)}", "--drain-delay=0s")
    async with served("tests.marshal.apps:service", *options) as (process, url, session):
        assert os.sched_getaffinity(process.pid) == {min(cores)}
        async with session.post(f"{url}/slow", json=1) as response:
            assert os.sched_getaffinity(await response.json()) == cores
        process.send_signal(signal.SIGTERM)


@pytest.mark.parametrize(
    ("cpus", "message"),
    [
        ("4096", "expected cpus out of ["),
        ("3-1", "got none"),
        ("first", "expected cores, such as 0 or 0,2-3, got 'first'"),
    ],
)
def test_cores_that_the_marshal_can_not_have(cpus, message):
    """They are refused before anything is started."""
    refused = CliRunner().invoke(command, ["tests.marshal.apps:service", "--marshal-cpus", cpus])
    assert refused.exit_code == 2
    assert message in refused.output


async def test_two_signals_within_one_turn_are_one():
    """A terminal and a program in between may both pass on the same Ctrl-C."""
    told = _told_to_stop()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.raise_signal(number)
    errors = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    try:
        await told
        await asyncio.sleep(0.01)
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    assert errors == []


async def until_ready(session, url):
    """Wait until the workers are there."""
    while True:
        async with session.get(f"{url}/readyz") as response:
            if response.status == 200:
                return
        await asyncio.sleep(0.02)


async def until_alive(session, url):
    """Wait until somebody listens."""
    while True:
        with suppress(aiohttp.ClientConnectorError):
            async with session.get(f"{url}/healthz") as response:
                return response.status
        await asyncio.sleep(0.02)


async def test_recorded_traffic(tmp_path):
    """Every request that reached the endpoint is in the file when the service has ended."""
    path = tmp_path / "out.csv.gz"
    options = (f"--record=/square={path}", "--drain-delay=0s")
    async with served("tests.marshal.apps:service", *options) as (process, url, session):
        for number in range(30):
            async with session.post(f"{url}/square", json=number) as response:
                assert response.status == 200
            async with session.post(f"{url}/slow", json=number) as response:
                assert response.status == 200
        process.send_signal(signal.SIGTERM)
    assert process.returncode == 0
    trace = read_trace(path)
    assert len(trace.times) == 30
    assert trace.times[-1] > 0.5  # thirty answers of the slow endpoint lie between


async def test_operators_have_a_port_of_their_own():
    """Where it is, is said with the rest; clients find no metrics on theirs."""
    options = ("--admin-port=0", "--drain-delay=0s")
    async with served("tests.marshal.apps:corked", *options) as (process, url, session):
        await process.stdout.readuntil(b"/readyz\n")
        _, admin, *pages = (await process.stdout.readline()).decode().split()
        assert pages == ["/debug/batches", "/healthz", "/readyz", "/metrics"]
        async with session.get(f"{admin}metrics") as response:
            assert response.status == 200
        async with session.get(f"{url}/metrics") as response:
            assert response.status == 404
        process.send_signal(signal.SIGTERM)
    assert process.returncode == 0


async def test_a_handler_runs_elsewhere_than_its_endpoint_says():
    """Its three workers are threads of the service itself; the other endpoint's is a process."""
    options = ("--workers=/slow=threads:3", "--drain-delay=0s")
    async with served("tests.marshal.apps:service", *options) as (process, url, session):
        async with session.post(f"{url}/slow", json=1) as response:
            assert await response.json() == process.pid
        async with session.get(f"{url}/metrics") as metrics:
            alive = b'adaptive_batching_workers{endpoint="/slow",state="alive"} 3.0'
            assert alive in await metrics.read()
        process.send_signal(signal.SIGTERM)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere:service"], "there is no module 'nowhere'"),
        (["tests.nowhere:service"], "there is no module 'tests.nowhere'"),
        (["tests.marshal.apps:nothing"], "found nothing"),
        (["tests.marshal.apps:Square"], "found a type"),
        (["tests.marshal.apps"], "expected MODULE:SERVICE, such as digits:service"),
        (["..digits:service"], "expected MODULE:SERVICE, such as digits:service"),
        (["digits.py:service"], "not its file: say digits:service, got 'digits.py:service'"),
        (["../digits:service"], "not its file: say digits:service in .., got"),
        (["models/digits.py:service"], "not its file: say digits:service in models, got"),
        (["tests.marshal.apps:empty"], "found a Service without any"),
        (
            ["tests.marshal.apps:corked", "--host=nonsense.invalid"],
            "the host's name can't be resolved",
        ),
        (["tests.marshal.apps:corked", f"--host={'a' * 70}"], "the host's name can't be resolved"),
        (["tests.marshal.apps:service", "--drain-timeout=5"], "expected a duration with a unit"),
        (["tests.marshal.apps:service", "--port=70000"], "70000"),
        (["tests.marshal.apps:corked", f"--unix-socket=/{'a' * 110}"], "of 1 to 107 bytes"),
        (["tests.marshal.apps:service", "--trace=200%"], "expected at most 100%, got '200%'"),
        (["tests.marshal.apps:service", "--record=out"], "expected /square=FILE or /slow=FILE"),
        (["tests.marshal.apps:service", "--record=/slow="], "expected a file, got '/slow='"),
        (
            ["tests.marshal.apps:service", "--record=/slow=a", "--record=/slow=b"],
            "expected one file for /slow, got two",
        ),
        (
            ["tests.marshal.apps:service", "--record=/slow=a", "--record=/square=./a"],
            "expected a file for each endpoint, got ./a twice",
        ),
        (["tests.marshal.apps:service", "--workers=2"], "/square=WHERE or /slow=WHERE"),
        (["tests.marshal.apps:service", "--workers=/slow=few"], "expected a number, tasks:2,"),
        (
            ["tests.marshal.apps:service", "--workers=/slow=0"],
            "workers: expected a count of at least 1",
        ),
        (["tests.marshal.apps:staged", "--workers=ray:2"], "expected none for pipelines"),
    ],
)
def test_mistakes_on_the_command_line(arguments, message):
    """One sentence, exit status 2."""
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_variables_stand_for_options(monkeypatch):
    """An option is stronger, and a variable that is wrong is named."""
    for name, text in {"PORT": "8001", "ADMIN_PORT": "9001", "WORKERS": "/a=2 /b=3"}.items():
        monkeypatch.setenv(f"ADAPTIVE_BATCHING_{name}", text)
    params = command.make_context("serve", ["module:service", "--port=8002"]).params
    said = (params["port"], params["admin_port"], params["moves"])
    assert said == (8002, 9001, ("/a=2", "/b=3"))
    monkeypatch.setenv("ADAPTIVE_BATCHING_ADMIN_PORT", "tcp://10.0.0.1:80")
    result = CliRunner().invoke(main, ["serve", "module:service"])
    assert "ADAPTIVE_BATCHING_ADMIN_PORT: expected a whole number from 0 to" in result.output


def test_a_port_that_is_taken():
    """One sentence, exit status 1."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = CliRunner().invoke(command, ["tests.marshal.apps:corked", f"--port={port}"])
    assert result.exit_code == 1
    assert f"can't listen on 127.0.0.1 port {port}: Address already in use" in result.output


def test_a_recording_that_can_not_be_written(tmp_path):
    """One sentence, exit status 1, before anything is served."""
    record = f"--record=/slow={tmp_path}/no/out.csv.gz"
    result = CliRunner().invoke(command, ["tests.marshal.apps:corked", "--port=0", record])
    assert result.exit_code == 1
    assert "out.csv.gz: No such file or directory" in result.output


def test_a_model_that_does_not_load():
    """The handler's own error is in the message."""
    result = CliRunner().invoke(command, ["tests.marshal.apps:unloadable", "--port=0"])
    assert result.exit_code == 1
    assert "no model" in result.output


def test_ctrl_c_while_the_module_is_imported(monkeypatch):
    """Before it could take signals it ends as other programs do."""
    monkeypatch.setattr(serve, "_load", interrupt)
    assert CliRunner().invoke(main, ["serve", "tests.marshal.apps:corked"]).exit_code == 130


def interrupt(*_):
    raise KeyboardInterrupt


async def test_nobody_reads_what_it_says():
    """A full disk or a reader that has gone is no reason not to serve."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with Path("/dev/full").open("wb") as full:  # noqa: ASYNC230  a device
        process = await asyncio.create_subprocess_exec(
            *SERVE,
            "tests.marshal.apps:corked",
            f"--port={port}",
            "--drain-delay=0s",
            "--log-level=warning",
            stdout=full,
            stderr=subprocess.PIPE,
        )
    try:
        async with aiohttp.ClientSession() as session:
            warning = await process.stderr.readline()
            assert b"standard output can't be written: [Errno 28] No space left" in warning
            assert await until_alive(session, f"http://127.0.0.1:{port}") == 200
            process.send_signal(signal.SIGTERM)
            assert await process.stderr.read() == b""
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "def f():\n    raise ValueError(3)\nf()\n",
            'Traceback (most recent call last):\n  File "',
        ),
        (
            "from starlette.applications import Starlette as S\nservice = S()\n",
            "run that with uvicorn",
        ),
    ],
)
def test_a_module_that_can_not_be_served(text, says, tmp_path, monkeypatch):
    """What is said begins in the user's module, and shows none of our frames."""
    (tmp_path / f"unserved_{len(text)}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    result = CliRunner().invoke(main, ["serve", f"unserved_{len(text)}:service"])
    assert says in result.stderr
    assert result.stderr.count("File") == 2 * ("ValueError: 3" in result.stderr)
    assert result.exit_code


@pytest.mark.parametrize("name", main.list_commands(click.Context(main)))
def test_help_names_no_bound_that_only_a_slip_would_meet(name):
    """Not 1000000000000000000."""
    assert re.search(r"x<=\d{7}", CliRunner().invoke(main, [name, "--help"]).stdout) is None


def test_a_command_that_is_misspelt():
    """The nearest command is suggested."""
    said = CliRunner().invoke(main, ["serv"]).stderr
    assert "No such command 'serv'. Did you mean 'serve'?" in said


async def test_reload_starts_the_changed_service(tmp_path):
    """A change of the module is served without a command; one signal ends both processes."""
    module = tmp_path / "growing.py"
    text = "from adaptive_batching import Service\nservice = Service()\n"
    text += "@service.endpoint('/{}')\nasync def echo(items): return items\n"
    module.write_text(text.format("before"))
    process = await asyncio.create_subprocess_exec(
        *(*SERVE, "growing:service", "--reload", "--port=0", "--drain-delay=0s"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=os.environ
        | {"PYTHONPATH": str(Path.cwd()), "PYTHONDONTWRITEBYTECODE": "1"}
        | {"ADAPTIVE_BATCHING_RELOAD": "1"},  # which the command started anew has, too
    )
    async with told_to_end(process):
        assert (await process.stdout.readline()).endswith(b"/before\n")
        module.write_text(text.format("after"))
        while not (line := await process.stdout.readline()).startswith(b"POST"):
            assert line.startswith(b"GET")
        assert line.endswith(b"/after\n")
    said = (await process.stderr.read()).decode()
    assert "starting anew: growing.py\n" in said
    assert "loading 1 worker" in said
    assert "listening on http://127.0.0.1:" in said


async def test_reloaded_service_ends_with_its_parent(tmp_path):
    """A parent that is killed leaves no service behind that keeps the port."""
    (tmp_path / "lone.py").write_text(
        "from adaptive_batching import Service\nservice = Service()\n"
        "@service.endpoint('/')\nasync def echo(items): return items\n"
    )
    parent = await asyncio.create_subprocess_exec(
        *(*SERVE, "lone:service", "--reload", "--port=0", "--drain-delay=0s"),
        stdout=subprocess.PIPE,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path.cwd())},
        start_new_session=True,
    )
    try:
        assert (await parent.stdout.readline()).startswith(b"POST")
        parent.kill()
        async with asyncio.timeout(60):
            await parent.stdout.read()  # its service held the other end
    finally:
        with suppress(ProcessLookupError):
            os.killpg(parent.pid, signal.SIGKILL)
