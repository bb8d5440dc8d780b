"""A file that is about to be written leaves earlier ones to be read."""

import errno
import fcntl
import logging
import os
import stat
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import BinaryIO

_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_PRIVATE = 0o600  # a recording says which tenant asked when
_MOST_LINKS = 40  # as the kernel has it
_log = logging.getLogger("adaptive_batching")


def rotated(path: Path, empty: int) -> BinaryIO:
    """Open a file of one's own; what is there becomes the first free of `out.1.csv.gz`, ….

    What still writes to it goes on under that name, be it the process before us in a rolling
    restart, or another that was told the same file: each holds a lock on its own.

    Args:
        path: The file; devices and pipes are just opened.
        empty: A file of at most so many bytes says nothing yet, and may be replaced.

    Raises:
        OSError: It can't be written or renamed.
    """
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(path.stat().st_mode):
            return path.open("ab")
    there = _target(path)
    while True:
        file = os.fdopen(os.open(there, _FLAGS, _PRIVATE), "ab")
        try:
            free = _locked(file)
            about = os.fstat(file.fileno())
            if os.path.samestat(about, there.lstat()):  # another may have set it aside by now
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


def _target(path: Path) -> Path:
    """The path of a file to rename: that of a link stays a link, and leads to the new file.

    Raises:
        PermissionError: A link belongs to another user, that could have any file of ours renamed
            by it; the kernel's `protected_symlinks` asks only where a file is opened.
    """
    for _ in range(_MOST_LINKS):
        if not path.is_symlink():
            return path
        owner = path.lstat().st_uid
        if owner not in {0, os.geteuid()}:
            msg = f"expected a file or a link of this user or of root, got a link of user {owner}"
            raise PermissionError(errno.EACCES, msg, str(path))
        path = path.parent / path.readlink()
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


def _set_aside(path: Path, there: Path, *, in_use: bool) -> None:
    stem, dot, suffixes = there.name.partition(".")
    for number in count(1):
        free = there.with_name(f"{stem}.{number}{dot}{suffixes}")
        with suppress(FileExistsError):
            free.touch(_PRIVATE, exist_ok=False)  # ours from now on, whatever else looks for a name
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
    """Whether no other process holds the file; a file system without locks is believed."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
