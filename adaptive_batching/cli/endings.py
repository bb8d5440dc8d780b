"""How a command ends when it is interrupted, or when nobody takes what it says."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import click

_INTERRUPTED = 130  # what shells say of a program that ended by SIGINT


@contextmanager
def interruptible() -> Iterator[None]:
    """Make Ctrl-C the end with status 130, without a traceback."""
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


@contextmanager
def writing() -> Iterator[None]:
    """Make one sentence of output that can't be written, and none if a pipe's reader has left."""
    try:
        yield
    except OSError as error:
        forget_output()
        if isinstance(error, BrokenPipeError):
            sys.exit(1)
        raise click.ClickException(f"can't write the output: {error.strerror}") from error


def forget_output() -> None:
    """Let what is still to be written vanish: Python would try it again at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with suppress(OSError):  # what stands in for stdout in tests has no file
        os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
