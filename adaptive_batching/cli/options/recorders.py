"""Files that real traffic is recorded to."""

from collections.abc import Collection, Iterable
from contextlib import ExitStack
from pathlib import Path

import click

from adaptive_batching.cli.options.named_values import named_values
from adaptive_batching.instrumentation.recording import Recorder


def make_recorders(
    records: Iterable[str], names: Collection[str], kind: str, option: str = "--record"
) -> dict[str, Recorder]:
    """Return the recorder of each name; each has a file of its own, as it has its own model.

    Args:
        records: `[NAME=]FILE` of each use of `--record`.
        names: The endpoints or routes that may be recorded.
        kind: What they are: endpoints or routes, one of them.
        option: What it is called.

    Raises:
        BadParameter: One is not among them, or a file is not for one alone.
    """
    recorders: dict[str, Recorder] = {}
    for name, file in named_values(option, "FILE", records, names).items():
        if Path(file).resolve() in {each.path.resolve() for each in recorders.values()}:
            msg = f"{option}: expected a file for each {kind}, got {file} twice"
            raise click.BadParameter(msg)
        recorders[name] = Recorder(file)
    return recorders


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
