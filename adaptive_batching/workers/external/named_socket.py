"""A Unix socket under a name that only some may connect to, and that is gone when it is closed."""

import errno
import fcntl
import os
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from adaptive_batching.errors import WorkerStartError
from adaptive_batching.workers.external.socket_path import PREFIX

_BACKLOG = 64
_PRIVATE = 0o600
_OPEN = 0o666
_PATIENCE = 1.0  # seconds; another service that starts is done in less than a thousandth
_UCRED = Struct("3i")


class Peer(NamedTuple):
    """The process at the other end, as the kernel knows it."""

    pid: int
    uid: int


def peer_of(connected: socket.socket) -> Peer:
    """The process that connected, as it was then."""
    pid, uid, _ = _UCRED.unpack(
        connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    )
    return Peer(pid, uid)


class NamedSocket:
    """Listens under a path until it is closed.

    A socket that is in the way is replaced if no process listens to it any more: the one that did
    was killed. Anything else that is in the way stays.

    Args:
        path: Its name.
        shared: Whether users other than we and root may connect; check those that do.

    Attributes:
        socket: What listens; it does not block.

    Raises:
        WorkerStartError: Another process listens there, a file is in the way, or it is not allowed.
    """

    def __init__(self, path: str, *, shared: bool = False) -> None:
        if not (hasattr(os, "O_PATH") and hasattr(socket, "SO_PEERCRED")):
            raise WorkerStartError(f"can't listen on {PREFIX}{path}: named sockets need Linux")
        self._path = Path(path).absolute()  # the program may change its directory
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(0)
        # Linux takes the mode of a socket's file from it, so there is no instant at which others
        # could connect, and the umask, which all threads share, need not be touched.
        os.fchmod(self.socket.fileno(), _OPEN if shared else _PRIVATE)
        try:
            with _alone_in(self._path.parent):
                _clear(path)
                self.socket.bind(path)
                self._inode = _grant(self._path, _OPEN if shared else _PRIVATE)
                self.socket.listen(_BACKLOG)
        except OSError as error:
            self.socket.close()
            msg = f"can't listen on {PREFIX}{path}: {error.strerror or error}"
            raise WorkerStartError(msg) from error
        except WorkerStartError:
            self.socket.close()
            raise

    def __repr__(self) -> str:
        return f"{PREFIX}{self._path}"

    def close(self) -> None:
        """Listen no more, and remove the name unless it is another's by now; safe twice."""
        self.socket.close()
        with suppress(OSError):
            if self._path.lstat().st_ino == self._inode:
                self._path.unlink()


@contextmanager
def _alone_in(directory: Path) -> Iterator[None]:
    """Let no other process like this look at, remove or create sockets here meanwhile."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _lock(handle, directory)
        yield
    finally:
        os.close(handle)


def _lock(handle: int, directory: Path) -> None:
    """Lock a directory; not for ever, for any process that can read it may hold its lock."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                msg = f"expected to be alone in {directory}, but another process holds a lock on it"
                raise WorkerStartError(msg) from None
            time.sleep(_PATIENCE / 100)
        else:
            return


def _grant(path: Path, mode: int) -> int:
    """Set the mode of a socket's file, whatever the umask, and return its inode.

    Of the file itself: a link that took its place meanwhile could lead to any other file.

    Raises:
        WorkerStartError: It is no socket.
    """
    handle = os.open(path, os.O_PATH | os.O_NOFOLLOW)
    try:
        status = os.fstat(handle)
        if not stat.S_ISSOCK(status.st_mode):
            msg = f"expected our own socket at {path}, but another file took its place"
            raise WorkerStartError(msg)
        os.chmod(f"/proc/self/fd/{handle}", mode)
        return status.st_ino
    finally:
        os.close(handle)


def _clear(path: str) -> None:
    """Remove a socket that no process listens to.

    Raises:
        WorkerStartError: A process does, or it is no socket.
    """
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        msg = f"expected nothing or a socket at {path}, got another kind of file"
        raise WorkerStartError(msg)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        caller.settimeout(0)
        found = caller.connect_ex(path)
    if found != errno.ECONNREFUSED:
        msg = f"can't listen on {PREFIX}{path}: another process does"
        raise WorkerStartError(msg)
    os.unlink(path)
