"""Ctrl-C that has to wait."""

import signal
import threading

import pytest

from adaptive_batching.held_interrupt import interrupt_held


@pytest.fixture(autouse=True)
def heard():
    """Ctrl-C raises, also where the tests run in the background of a shell, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_comes_at_the_end():
    """What must not be broken off is done wholly, and Ctrl-C is not forgotten."""
    done = []

    def work():
        with interrupt_held():
            signal.raise_signal(signal.SIGINT)
            done.append("all of it")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["all of it"]
    with pytest.raises(KeyboardInterrupt):  # as it came before
        signal.raise_signal(signal.SIGINT)


def test_another_thread_is_never_told():
    """It changes nothing of what the main thread does then."""
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def work():
        with interrupt_held():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]
