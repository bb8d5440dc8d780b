"""A file that is about to be written keeps nobody's earlier one from being read."""

import logging
from itertools import count
from pathlib import Path

_log = logging.getLogger("adaptive_batching")


def set_aside(path: Path, empty: int) -> None:
    """Rename what is there to the first of `out.1.csv.gz`, `out.2.csv.gz`, … that is free.

    Whoever still writes to it, as the process before us does in a rolling restart, goes on.

    Args:
        path: The file, if there is one; devices and pipes stay where they are.
        empty: A file of at most so many bytes says nothing yet, and may be replaced.

    Raises:
        OSError: It can't be renamed.
    """
    there = path.resolve()  # of a link, what it leads to: it will lead to the new one
    if not there.is_file() or there.stat().st_size <= empty:
        return
    stem, dot, suffixes = there.name.partition(".")
    names = (there.with_name(f"{stem}.{number}{dot}{suffixes}") for number in count(1))
    free = next(name for name in names if not name.exists())
    there.rename(free)
    _log.info("%s was there already: it is %s now", path, free)
