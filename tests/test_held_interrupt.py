"""Ctrl-C that has to wait."""

import signal
import threading

import pytest

from adaptive_batching.held_interrupt import interrupt_held


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
