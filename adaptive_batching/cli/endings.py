"""How a command ends when its policy errs or its output is closed."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from traceback import format_exception

import click

from adaptive_batching.errors import PolicyError

_CAUSED = "\n\nThe above exception was the direct cause of"  # as Python writes it


@contextmanager
def policy_errors_told() -> Iterator[None]:
    """Make a policy's mistake a sentence, without a traceback of ours.

    Where the policy raised an error, its own traceback stands before the sentence.
    """
    try:
        yield
    except PolicyError as error:
        click.echo(_raised(error.__cause__), err=True, nl=False)
        raise click.ClickException(str(error)) from error


def _raised(cause: BaseException | None) -> str:
    """The traceback of what a policy raised, if it did; from another process it comes as text."""
    if cause is None:
        return ""
    if cause.__traceback__ is not None:
        frames = cause.__traceback__.tb_next  # the first is the scheduler's
        return "".join(format_exception(type(cause), cause, frames))
    raised, caused, _ = str(cause).partition(_CAUSED)
    return raised.lstrip('\n"') + "\n" if caused else ""


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
