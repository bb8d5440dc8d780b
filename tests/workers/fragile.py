"""A handler's module that changes while its workers run."""

import importlib
from itertools import count

_NAMES = count()
_SOUND = "def handler(items):\n    return items\n"


class Fragile:
    """A module in a directory of its own; each worker imports it as it is at that moment."""

    def __init__(self, directory):
        self._pid = directory / "pid"
        name = f"fragile_{next(_NAMES)}"
        self._file = directory / f"{name}.py"
        self.recovers()
        self.handler = importlib.import_module(name).handler

    def recovers(self):
        self._file.write_text(_SOUND)

    def breaks(self):
        self._file.write_text("raise RuntimeError('broken meanwhile')\n")

    def hangs(self):
        """From now on a worker that loads it says who it is, and goes no further."""
        self._file.write_text(
            "import os, pathlib, time\n"
            f"pathlib.Path({str(self._pid)!r}).write_text(f'{{os.getpid()}} ')\n"
            "time.sleep(3600)\n"
        )

    @property
    def loading(self):
        """The process that hangs; None until there is one."""
        written = self._pid.read_text() if self._pid.exists() else ""
        return int(written) if written.endswith(" ") else None
