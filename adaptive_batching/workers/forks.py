"""A process that a handler forks must not come back from it: it would answer our batch again."""

import os
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn, TypeVar

_T = TypeVar("_T")
_R = TypeVar("_R")


def ending_forks(call: Callable[[_T], _R]) -> Callable[[_T], _R]:
    """Return a call from which only this process comes back.

    A second answer on a worker's socket would be taken for that of the next batch.
    """
    here = os.getpid()

    def run(argument: _T) -> _R:
        try:
            return call(argument)
        finally:
            if os.getpid() != here:
                _end()

    return run


def _end() -> NoReturn:
    error = sys.exception()
    if not isinstance(error, SystemExit):  # the usual way to end in a fork, if not the best
        if error is not None:
            traceback.print_exception(error)
        sys.stderr.write("a process that the handler forked came back from it: end it there\n")
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(0 if isinstance(error, SystemExit) else 1)
