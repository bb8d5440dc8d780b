"""Virtual environments of the servers: made once, kept in the user's cache.

One for each, for what they ask of fastapi, numpy and protobuf can't all be had together.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

PYTHON = "3.11"  # Triton has a stub for each Python; MLServer ends before 3.13
_OUT_OF_REACH = re.compile(
    r"dns error|error sending request|request failed after|failed to fetch|network|timed? ?out"
    r"|client error \(connect\)|connection (refused|reset)",
    re.IGNORECASE,
)


def environment(name, requirements):
    """The folder of an environment with these packages, made if there is none yet.

    Skips the test if their registry can't be reached, and fails it if they can't be installed.
    """
    mark = hashlib.sha256("\n".join(requirements).encode()).hexdigest()[:8]
    folder = _cache() / f"{name}-{mark}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    complete = folder / "complete"
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.exists():
            _uv("venv", "--clear", "--python", PYTHON, folder)
            _uv("pip", "install", "--python", folder / "bin" / "python", *requirements)
            complete.touch()
    return folder


def _cache():
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches) / "adaptive_batching" / "real_servers"


def _uv(*arguments):
    uv = os.environ.get("UV") or shutil.which("uv")
    assert uv, "expected uv on the PATH: pip install uv"
    # of the project's own environment nothing is meant here
    clean = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    done = subprocess.run(
        [uv, *map(str, arguments)], env=clean, capture_output=True, text=True, check=False
    )
    if done.returncode and _OUT_OF_REACH.search(done.stderr):
        pytest.skip(f"the registry can't be reached: {done.stderr.strip()[-300:]}")
    assert not done.returncode, done.stderr
