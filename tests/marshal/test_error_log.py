"""What operators read when requests fail."""

import logging

import pytest

from adaptive_batching.errors import Overloaded, WorkerLost
from adaptive_batching.marshal import error_log
from adaptive_batching.marshal.error_log import ErrorLog
from adaptive_batching.marshal.rejections import Rejected
from tests.marshal.client import until


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


@pytest.mark.parametrize("more", [0, 3])
async def test_how_many_were_left_out_is_said(caplog, monkeypatch, more):
    """Once the second is over, if there were any; then the next one is entered in full."""
    monkeypatch.setattr(error_log, "_QUIET", 0.01)
    log = ErrorLog()
    for number in range(1 + more):
        log.enter(Overloaded(f"number {number}"), "id", "/one")
    assert len(lines(caplog)) == 1
    await until(lambda: not log._more)
    said = ["/one: overloaded: Overloaded: 3 more like it within a second"] if more else []
    assert lines(caplog)[1:] == said
    log.enter(Overloaded("again"), "id", "/one")
    assert "again" in lines(caplog)[-1]
