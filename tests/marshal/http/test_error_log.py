"""What operators read when requests fail."""

import asyncio
import logging
import re
from pathlib import Path

import pytest

import adaptive_batching
from adaptive_batching import errors
from adaptive_batching.errors import CostError, Overloaded, WorkerLost
from adaptive_batching.instrumentation import log_rate_limit
from adaptive_batching.marshal.http.error_log import ErrorLog
from adaptive_batching.marshal.http.error_responses import Rejected
from adaptive_batching.wire.error_reply import MESSAGES
from tests.marshal.client import until
from tests.odd_exceptions import of_an_odd_kind
from tests.virtual_time import run_virtually


def lines(caplog):
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]


async def test_errors_of_different_kinds_do_not_silence_each_other(caplog):
    """Endpoint, code and exception make a kind; a client's own mistakes are no errors of ours."""
    log = ErrorLog()
    for error in (ValueError("a"), KeyError("b"), WorkerLost("c"), Rejected(505, "http_version")):
        for path in ("/one", "/two"):
            log.enter(error, "id", path)
    assert len(lines(caplog)) == 6
    assert "request id: /one: handler_error: ValueError('a')" in lines(caplog)


async def test_unlike_causes_do_not_silence_each_other(caplog):
    """A cost function that fails in two ways is entered twice."""
    log = ErrorLog()
    for cause in (ValueError("a"), KeyError("b"), KeyError("c"), None):
        error = CostError(f"cost: raised {cause!r}")
        error.__cause__ = cause
        log.enter(error, "id", "/one")
    assert len(lines(caplog)) == 3


async def test_an_exception_of_any_metaclass_is_entered(caplog):
    """Its name is one of what tells bursts apart."""
    ErrorLog().enter(of_an_odd_kind("bad"), "id", "/one")
    assert "OfAnOddKind: bad" in lines(caplog)[0]


@pytest.mark.parametrize("more", [0, 3])
async def test_how_many_were_left_out_is_said(caplog, monkeypatch, more):
    """Once the burst is over, if there were any; then the next one is entered in full."""
    monkeypatch.setattr(log_rate_limit, "_QUIET", 0.01)
    log = ErrorLog()
    for number in range(1 + more):
        log.enter(Overloaded(f"number {number}"), "id", "/one")
    assert len(lines(caplog)) == 1
    await until(lambda: not log._bursts)
    said = ["/one: overloaded: Overloaded: 3 more like it within "] if more else []
    assert [line[: len(said[0])] for line in lines(caplog)[1:]] == said
    log.enter(Overloaded("again"), "id", "/one")
    assert "again" in lines(caplog)[-1]


async def test_what_was_flushed_is_not_said_again(caplog, monkeypatch):
    """A service that ends does not wait for the end of a burst, which then adds nothing."""
    monkeypatch.setattr(log_rate_limit, "_QUIET", 0.01)
    log = ErrorLog()
    for number in range(4):
        log.enter(Overloaded(f"number {number}"), "id", "/one")
    log.flush()
    assert "/one: overloaded: Overloaded: 3 more like it within " in lines(caplog)[-1]
    log.flush()
    await until(lambda: not log._bursts)
    assert len(lines(caplog)) == 2


def test_a_long_burst_is_told_of_now_and_then(caplog):
    """Refusals that come for minutes: the first, a line a minute, and how many at the end."""

    async def story():
        log, entered = ErrorLog(), 0
        while len(lines(caplog)) < 3:
            log.enter(Overloaded("too much"), "id", "/one")
            entered += 1
            await asyncio.sleep(0.5)
        await until(lambda: not log._bursts)
        return entered

    entered = run_virtually(story())
    told = [record.count for record in caplog.records if hasattr(record, "count")]
    assert told[:2] == [119, 120]
    assert 1 + sum(told) == entered
    assert caplog.records[0].request_id == "id"
    assert {(each.endpoint, each.code) for each in caplog.records} == {("/one", "overloaded")}


def test_every_code_has_a_message():
    """A client is told in words what happened, except where the words are about its own item."""
    kinds = [each for each in vars(errors).values() if isinstance(each, type)]
    codes = {kind.code for kind in kinds if issubclass(kind, errors.BatchingError)}
    for file in Path(adaptive_batching.__file__).parent.rglob("*.py"):
        codes |= set(re.findall(r'Rejected\(\s*\d+,\s*"(\w+)"', file.read_text()))
    assert codes - {"invalid_item", "too_many_items"} == set(MESSAGES)
