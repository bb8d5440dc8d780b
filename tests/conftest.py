"""For all tests."""

import asyncio
import gc
import logging
import os
import signal
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

# Before Python 3.14, pytest-asyncio's first look at the current loop makes one that nobody ever
# closes, and the collector complains in whatever test it runs; after this, that look finds none.
asyncio.set_event_loop(None)

# What an example takes says how busy the machine is: the timeout in pyproject.toml ends what hangs.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

# A shell without job control starts its background jobs with SIGINT ignored, and a program inherits
# that. A handler, also one that does nothing, is reset to the default in every program that a test
# starts, so that Ctrl-C reaches it, while pytest itself goes on without hearing one.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, lambda _number, _frame: None)

# A thread of asyncio waits for each child, and says in the log if its loop is closed, or the child
# was reaped elsewhere, when it ends: that is in a later test, of which some expect an empty log.
logging.getLogger("asyncio").addFilter(lambda record: "waitpid" not in (record.threadName or ""))

# Tests start hundreds of programs, and without bytecode on disk each of them compiles all modules.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector off the tests and all that they import, which stay to the end.

    Else it goes through millions of objects again and again, in a tenth of the time of all tests.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
