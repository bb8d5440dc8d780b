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

from tests.real_servers.registries import settings

PYTHON = "3.11"  # Triton has a stub for each Python; MLServer ends before 3.13
_OUT_OF_REACH = re.compile(
    r"dns error|error sending request|request failed after|failed to fetch|network|timed? ?out"
    r"|client error \(connect\)|connection (refused|reset)|no interpreter found",
    re.IGNORECASE,
)
_PATIENCE = 240.0  # seconds for one environment, however slowly it comes
_found_out_of_reach: list[str] = []  # nobody waits a second time for who did not answer


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
            env = settings()
            _uv(env, "venv", "--clear", "--python", PYTHON, folder)
            _uv(env, "pip", "install", "--python", folder / "bin" / "python", *requirements)
            complete.touch()
    return folder


def _cache():
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches) / "adaptive_batching" / "real_servers"


def _uv(env, *arguments):
    uv = os.environ.get("UV") or shutil.which("uv")
    assert uv, "expected uv on the PATH: pip install uv"
    if _found_out_of_reach:
        pytest.skip(_found_out_of_reach[0])
    command = [uv, *map(str, arguments)]
    try:
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, check=False, timeout=_PATIENCE
        )
    except subprocess.TimeoutExpired:
        _out_of_reach(f"it took longer than {_PATIENCE:.0f} s")
    if done.returncode and _OUT_OF_REACH.search(done.stderr):
        _out_of_reach(done.stderr.strip()[-300:])
    assert not done.returncode, done.stderr


def _out_of_reach(why):
    _found_out_of_reach.append(f"can't be installed here: {why}")
    pytest.skip(_found_out_of_reach[0])
