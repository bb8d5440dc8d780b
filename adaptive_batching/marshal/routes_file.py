"""A file of routes that may be written anew while they are at work."""

import os
from pathlib import Path

from adaptive_batching.marshal.route import Route
from adaptive_batching.marshal.settings import read_routes


class RoutesFile:
    """Reads the routes again and again.

    Args:
        path: Of the file; see `settings`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = self._stamp()

    def read(self) -> list[Route]:
        """What it says now, with the variables of the environment.

        Raises:
            ConfigError: It can't be read, or something in it is not as it should be.
        """
        self._seen = self._stamp()
        return read_routes(self._path, os.environ)

    def changed(self) -> bool:
        """Whether it was written, or replaced as Kubernetes does, since it was read."""
        return self._stamp() != self._seen

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size
