"""On which of its workers a handler runs."""

import threading


class _Index(threading.local):
    """The number of a thread; a thread without one has that of its process."""

    number = 0


_index = _Index()


def worker_index() -> int:
    """The index of the worker that runs this code, from 0: for a handler, to choose its device.

    A worker process, thread or Ray actor has it before the handler is built, and one that replaces
    another has the same. It is 0 on the event loop, in external workers, and outside of workers.
    """
    return _index.number


def number_thread(number: int) -> None:
    """This thread is the worker of that index."""
    _index.number = number


def number_process(number: int) -> None:
    """This process is the worker of that index."""
    _Index.number = number
