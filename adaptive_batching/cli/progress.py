"""How far a command is, for a reader at a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


@contextmanager
def progress(
    what: str, number: int, console: Console | None = None
) -> Iterator[Callable[[], None]]:
    """Show a bar on stderr, which is gone in the end; nothing if stderr is no terminal.

    Args:
        what: Is counted.
        number: Of them in all.
        console: Another than stderr's.

    Yields:
        What is to be called after each of them.
    """
    screen = console or Console(stderr=True)
    if number <= 1 or not screen.is_terminal:
        yield lambda: None
        return
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen, transient=True) as bar:
        task = bar.add_task(what, total=number)
        yield lambda: bar.advance(task)
