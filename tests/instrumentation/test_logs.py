"""Lines of the log: what is in them, and that nobody waits for who reads them."""

import asyncio
import json
import logging
import os
import subprocess
import sys
from contextlib import asynccontextmanager

import aiohttp
import pytest

from adaptive_batching.instrumentation.logs import JsonFormatter, Logs
from tests.instrumentation.exposed import series
from tests.programs import told_to_end

log = logging.getLogger("adaptive_batching.test")


def record(message, *args, **extra):
    made = logging.makeLogRecord({"name": "n", "levelno": 30, "levelname": "WARNING", **extra})
    made.msg, made.args = message, args
    return made


@pytest.fixture
def pipe():
    """Both ends; what is written is read when a test says so."""
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def test_a_line_of_json_holds_what_it_is_about():
    """Time in UTC, level, logger, message, and the fields of `extra`."""
    made = record("request %s: %r", "a-1", "bad", created=0.25, request_id="a-1", code="malformed")
    assert json.loads(JsonFormatter().format(made)) == {
        "time": "1970-01-01T00:00:00.250+00:00",
        "level": "warning",
        "logger": "n",
        "message": "request a-1: 'bad'",
        "request_id": "a-1",
        "code": "malformed",
    }


def test_the_level_holds_for_the_block(pipe):
    """A program that collects lines of its own leaves the logger as it was."""
    logger = logging.getLogger("adaptive_batching")
    before = logger.level
    with Logs("text", pipe[1]).collected(logging.DEBUG):
        assert logger.level == logging.DEBUG
    assert logger.level == before


def test_nobody_forges_a_line():
    """Line ends of a client stay within the line, in whatever field (T12)."""
    line = JsonFormatter().format(record("got %s", "a\n\x1b[2J\u2028b", request_id="x\r\ny"))
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line)["request_id"] == "x\r\ny"


def test_what_is_collected_is_written_by_a_thread(pipe):
    """In order, tracebacks too; arguments that change afterwards are written as they were."""
    reading, writing = pipe
    changing = ["before"]
    with Logs("json", writing).collected() as logs:
        log.debug("too little")
        log.info("got %s", changing)
        changing[0] = "after"
        try:
            int("no")
        except ValueError:
            log.exception("failed")
    first, second = map(json.loads, os.read(reading, 2**16).decode().splitlines())
    assert first["message"] == "got ['before']"
    assert second["exception"].endswith("base 10: 'no'")
    assert logs.dropped == 0
    assert not any("_Handler" in type(each).__name__ for each in logging.getLogger().handlers)


def test_a_reader_that_is_stuck_holds_nobody_up(pipe):
    """What doesn't fit is dropped and counted, and the gap is told of once lines flow again."""
    reading, writing = pipe
    with Logs("text", writing).collected() as logs:
        while not logs.dropped:
            log.info("x" * 1000)
        log.info("y")
        dropped = logs.dropped
        read = b""
        while b"were dropped" not in read:
            read += os.read(reading, 2**16)
            log.info("z")
    assert b"lines were dropped: they were not written fast enough" in read
    assert dropped >= 2


# ------------------------------------------------------------------------------- in real processes


@asynccontextmanager
async def served(stderr, *options):
    """A service that writes its log there, and a client of it; then it ends as it should."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "adaptive_batching", "serve", "tests.instrumentation.apps:service"),
        *("--port=0", "--drain-delay=0s", *options),
        stdout=subprocess.PIPE,
        stderr=stderr,
    )
    async with told_to_end(process):
        url = (await process.stdout.readline()).split()[1].decode().rpartition("/")[0]
        async with aiohttp.ClientSession(url) as session:
            yield session


async def test_every_line_of_a_service_is_json_under_the_clients_id(tmp_path):
    """A handler that raises is found by the id that its client was told."""
    written = tmp_path / "log"
    with written.open("wb") as file:
        async with (
            served(file, "--log-format=json") as session,
            session.post("/echo", json="raise") as response,
        ):
            name = response.headers["X-Request-Id"]
            assert response.status == 500
    lines = [json.loads(line) for line in written.read_text().splitlines()]
    [failed] = [line for line in lines if line.get("request_id") == name]
    assert (failed["endpoint"], failed["code"]) == ("/echo", "handler_error")
    assert failed["level"] == "warning"
    assert "ValueError: secret" in failed["exception"]


@pytest.mark.parametrize(
    ("level", "told"), [("debug", {404, 500}), ("info", {500}), ("error", set())]
)
async def test_the_level_says_what_is_told(level, told, tmp_path):
    """Clients' own mistakes to those who debug, failures not to those who want errors alone."""
    written = tmp_path / "log"
    with written.open("wb") as file:
        async with served(file, f"--log-level={level}") as session:
            for path in ("/echo", "/nothing"):
                async with session.post(path, json="raise"):
                    pass
    codes = {404: "not_found", 500: "handler_error"}
    assert {status for status in codes if codes[status] in written.read_text()} == told


async def test_a_service_whose_log_nobody_reads_answers_and_ends(pipe):
    """A full pipe stops neither requests nor the end; the metric says what was lost (F19)."""
    async with served(pipe[1], "--log-level=debug", "--log-format=json") as session:
        headers = {"X-Request-Id": "x" * 64}
        lost = 0.0
        while not lost:
            for _ in range(200):
                async with session.get("/nothing", headers=headers) as response:
                    assert response.status == 404
            async with session.get("/metrics") as response:
                lost = series(await response.text())["log_lines_dropped_total",]
        async with session.post("/echo", json=1) as response:
            assert await response.json() == 1
