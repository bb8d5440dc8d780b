"""A file that is about to be written keeps nobody's earlier one from being read."""

import fcntl
import logging
import os
import stat
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import BinaryIO

_log = logging.getLogger("adaptive_batching")


def rotated(path: Path, empty: int) -> BinaryIO:
    """Open a file of one's own; what is there becomes the first free of `out.1.csv.gz`, ….

    Whoever still writes to it goes on under that name, be it the process before us in a rolling
    restart, or another that was told the same file: each holds a lock on its own.

    Args:
        path: The file; devices and pipes are just opened.
        empty: A file of at most so many bytes says nothing yet, and may be replaced.

    Raises:
        OSError: It can't be written or renamed.
    """
    there = path.resolve()  # of a link, what it leads to: it will lead to the new one
    while True:
        file = there.open("ab")
        try:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return file
            free = _locked(file)
            about = os.fstat(file.fileno())
            if os.path.samestat(about, there.stat()):  # another may have set it aside by now
                if free and about.st_size <= empty:
                    file.truncate(0)
                    return file
                _set_aside(path, there, in_use=not free)
        except FileNotFoundError:
            pass  # set aside by another
        except BaseException:
            file.close()
            raise
        file.close()


def _set_aside(path: Path, there: Path, *, in_use: bool) -> None:
    stem, dot, suffixes = there.name.partition(".")
    for number in count(1):
        free = there.with_name(f"{stem}.{number}{dot}{suffixes}")
        with suppress(FileExistsError):
            free.touch(exist_ok=False)  # ours from now on, whoever else looks for a name
            break
    try:
        there.rename(free)
    except OSError:
        free.unlink()
        raise
    if in_use:
        _log.warning("%s is being recorded to by another: that goes on as %s", path, free)
    else:
        _log.info("%s was there already: it is %s now", path, free)


def _locked(file: BinaryIO) -> bool:
    """Whether nobody else holds the file; a file system without locks is believed."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
