"""Standard output for tables."""

from rich.console import Console

_WIDTH = 150  # columns: a line that the terminal wraps is better than a number cut short


def screen() -> Console:
    """As wide as tables need; names of files and keys are shown as they are, brackets and all."""
    console = Console(highlight=False, markup=False, emoji=False)
    console.width = max(console.width, _WIDTH)
    return console
