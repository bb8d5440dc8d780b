"""Holds Ctrl-C back while something is done that must not be broken off in its middle."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


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
