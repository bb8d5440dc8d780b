"""Ctrl-C that has to wait."""

import signal
import subprocess
import sys
import threading

import click
import pytest
from click.testing import CliRunner

from adaptive_batching.cli import main
from adaptive_batching.interrupts import interrupt_held


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


INTERRUPTED = """
import signal, sys

class Interrupts:
    def find_spec(self, name, *_):
        if name == sys.argv[1]:
            signal.raise_signal(signal.SIGINT)

sys.modules.pop(sys.argv[1], None)
sys.meta_path.insert(0, Interrupts())
from adaptive_batching.__main__ import main
main()
"""


@pytest.mark.parametrize("module", ["typing", "click", "click.core", "adaptive_batching.cli"])
def test_ctrl_c_while_the_command_line_is_imported(module):
    """From the first long import on it is a quiet end, with the status that shells know."""
    program = [sys.executable, "-c", INTERRUPTED, module]
    ended = subprocess.run(program, capture_output=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, b"", b"")


def test_ctrl_c_while_options_are_read(monkeypatch):
    """Half a millisecond before the command begins, it is no other end."""

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(click.Group, "parse_args", interrupted)
    result = CliRunner().invoke(main, ["simulate"])
    assert (result.exit_code, result.output) == (130, "")
