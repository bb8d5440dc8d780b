"""`adaptive-batching top` beside a real service: what it shows is true, and errors are told."""

import asyncio
import os
import pty
import re
import signal
import sys
import termios
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest
from click.testing import CliRunner

from adaptive_batching.cli import main
from adaptive_batching.instrumentation.live import WorkerView
from adaptive_batching.top.screen import _WORDS, _faults
from tests.marshal import apps
from tests.marshal.admin.test_admin import LOOPBACK
from tests.marshal.client import client_of, until

HOW_TOS = Path(__file__).parents[2] / "docs" / "how-to"
PRINTED = re.compile(r"^/\w+  (\w.*)\n((?:  \w+ .*\n)+)", re.MULTILINE)
LABEL = re.compile(r"^  (\w+) ", re.MULTILINE)


async def top(*arguments):
    """Its exit status, output and complaints."""
    command = [sys.executable, "-m", "adaptive_batching", "top", *arguments]
    environment = {**os.environ, "COLUMNS": "120"}
    process = await asyncio.create_subprocess_exec(
        *command, stdout=PIPE, stderr=PIPE, env=environment
    )
    output, complaint = await process.communicate()
    return process.returncode, output.decode(), complaint.decode()


async def test_one_look():
    """Numbers of each endpoint, as they were a second ago at most, in lines as pages show them."""
    async with client_of(apps.service, admin=LOOPBACK) as client:
        await asyncio.gather(*(client.post("/square", number) for number in range(20)))
        client.running.broadcast.look()
        status, output, complaint = await top(client.running.admin_url, "--once")
        assert (status, complaint) == (0, "")
        square, slow = output.split("\n\n")[1:]
        assert square.startswith("/square  met\n")
        assert (
            "100 % of accepted requests were answered in the last minute: 0 late, 0 failed"
            in square
        )
        assert "p50" in square
        assert "p99" in square
        assert "no max_latency" in square
        assert "items of 8" in square
        assert "idle" in square
        assert re.search(r"workers +□ +busy [\d.<]+ %, [\d.<]+ % of what full batches", square)
        assert slow.startswith("/slow  idle\n")
        pages = "".join(page.read_text() for page in HOW_TOS.rglob("*.md"))
        printed = PRINTED.findall(pages)
        assert {verdict for verdict, _ in printed} <= {word for word, _ in _WORDS.values()}
        labels = LABEL.findall("".join(lines for _, lines in printed))
        assert set(labels) == set(LABEL.findall(square))
        status, output, _ = await top(client.running.admin_url, "--once", "--endpoint", "/slow")
        assert "/slow" in output
        assert "/square" not in output


def test_workers_that_need_a_look():
    """By index; by name where they have one, and a server that is down as a whole but once."""

    def worker(name="", slowness=1.0, *, alive=True):
        return WorkerView(alive, 1, slowness, None, name)

    def down(name=""):
        return worker(name, alive=False)

    assert [*_faults([worker(), down(), worker("", 4.12)])] == [
        "worker 1 is down",
        "worker 2 takes 4.1 times as long",
    ]
    half = [worker("http://a", 2.0), down("http://a"), down("http://b"), down("http://b")]
    assert [*_faults(half)] == [
        "http://b is down",
        "worker 0 (http://a) takes 2.0 times as long",
        "worker 1 (http://a) is down",
    ]


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("nonsense", "expected the URL of an admin port, such as http://127.0.0.1:9000"),
        ("http://127.0.0.1:{nobody}", "can't be reached: Connect"),
        ("{nobody}", "http://127.0.0.1:{nobody} can't be reached"),
        ("http://127.0.0.1:{data}", "start the service with --admin-port, and give that port"),
    ],
)
async def test_a_wrong_url_is_told_in_a_sentence(url, told, unused_tcp_port):
    async with client_of(apps.service, admin=LOOPBACK) as client:
        data = client.running.url.rpartition(":")[2]
        status, output, complaint = await top(url.format(nobody=unused_tcp_port, data=data))
        assert status in {1, 2}
        assert told.format(nobody=unused_tcp_port) in complaint
        assert "Traceback" not in complaint
        assert output == ""


@pytest.mark.parametrize("url", ["ftp://127.0.0.1", "http://[", "http://127.0.0.1:99999"])
def test_what_is_no_url_of_a_port_is_refused_at_once(url):
    result = CliRunner().invoke(main, ["top", url])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "expected the URL of an admin port" in result.stderr


async def test_an_endpoint_that_is_not_there():
    """Those that are, are named."""
    async with client_of(apps.service, admin=LOOPBACK) as client:
        status, _, complaint = await top(client.running.admin_url, "--once", "--endpoint", "/none")
        assert status == 2
        assert "expected one of /square, /slow, got /none" in complaint


class Terminal:
    """One that a program writes to; it is always read, or the program would wait for that."""

    def __init__(self):
        self._ours, self.theirs = pty.openpty()
        self._text = ""
        asyncio.get_running_loop().add_reader(self._ours, self._read)

    def _read(self):
        self._text += os.read(self._ours, 65536).decode(errors="replace")

    async def shows(self, what):
        """Wait until something has been written since the last thing that was waited for."""
        await until(lambda: what in self._text)
        self._text = self._text.partition(what)[2]

    def type(self, keys):
        """Press some keys."""
        os.write(self._ours, keys.encode())

    def close(self):
        asyncio.get_running_loop().remove_reader(self._ours)
        os.close(self._ours)
        os.close(self.theirs)


async def test_it_goes_on_and_comes_back(unused_tcp_port):
    """A service that is gone for a while is said to be; Ctrl-C ends it without a word."""
    at, terminal = ("127.0.0.1", unused_tcp_port), Terminal()
    environment = {**os.environ, "COLUMNS": "100", "LINES": "40", "TERM": "xterm"}
    async with client_of(apps.service, admin=at) as client:
        command = [sys.executable, "-m", "adaptive_batching", "top", client.running.admin_url]
        process = await asyncio.create_subprocess_exec(
            *command, stdin=terminal.theirs, stdout=terminal.theirs, stderr=PIPE, env=environment
        )
        await terminal.shows("no request")
        await client.post("/square", 3)
        await terminal.shows("100 % of accepted requests")
    await terminal.shows("no data; trying again")
    async with client_of(apps.service, admin=at):
        await terminal.shows("no request")
        process.send_signal(signal.SIGINT)
        _, complaint = await process.communicate()
    assert (process.returncode, complaint) == (130, b"")
    terminal.close()


async def test_q_ends_it():
    """With success, and with a terminal that shows what is typed as before."""
    terminal = Terminal()
    before = termios.tcgetattr(terminal.theirs)
    async with client_of(apps.service, admin=LOOPBACK) as client:
        port = client.running.admin_url.rpartition(":")[2]
        command = [sys.executable, "-m", "adaptive_batching", "top", port]
        process = await asyncio.create_subprocess_exec(
            *command, stdin=terminal.theirs, stdout=terminal.theirs, stderr=PIPE
        )
        await terminal.shows(f"http://127.0.0.1:{port} (q ends)")
        await until(lambda: not termios.tcgetattr(terminal.theirs)[3] & termios.ECHO)
        terminal.type("xq")
        _, complaint = await process.communicate()
    assert (process.returncode, complaint) == (0, b"")
    assert termios.tcgetattr(terminal.theirs) == before
    terminal.close()
