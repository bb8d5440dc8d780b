"""Makes Ctrl-C a quiet end, and holds it back while something must not be broken off."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_INTERRUPTED = 130  # what shells say of a program that ended by SIGINT


@contextmanager
def interruptible() -> Iterator[None]:
    """Make Ctrl-C the end with status 130 and without a word, as other programs have it."""
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


@contextmanager
def interrupt_held() -> Iterator[None]:
    """Let Ctrl-C wait until the end of the block; only the main thread is ever told of it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        if handler is not None:  # None: it is not one of Python's
            signal.signal(signal.SIGINT, handler)
        if came:
            signal.raise_signal(signal.SIGINT)
