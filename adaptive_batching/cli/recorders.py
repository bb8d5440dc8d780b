"""Files that real traffic is recorded to."""

from collections.abc import Iterable
from contextlib import ExitStack

import click

from adaptive_batching.instrumentation.recording import Recorder


def opened(recorders: Iterable[Recorder]) -> ExitStack:
    """Create the files now, and close them in the end.

    Raises:
        ClickException: One can't be written.
    """
    with ExitStack() as opened:
        for recorder in recorders:
            try:
                opened.enter_context(recorder)
            except OSError as error:
                msg = f"can't write {recorder.path}: {error.strerror}"
                raise click.ClickException(msg) from error
        return opened.pop_all()
