"""What the tutorials tell a newcomer to do, done."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

TUTORIALS = Path(__file__).parents[1] / "docs" / "tutorials"
_FILES = re.compile(r"^```python\n# (\w+\.py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = [sys.executable, "-m", "adaptive_batching"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files of the first tutorial, as its reader saves them."""
    page = (TUTORIALS / "ten_minutes.md").read_text()
    for shown, used in (
        ('max_latency="500ms", max', 'max_latency="10s", max'),  # a test's machine may be busy
        ("RandomForestClassifier(200", "RandomForestClassifier(20"),
    ):
        assert shown in page
        page = page.replace(shown, used)
    for name, text in _FILES.findall(page):
        (tmp_path / name).write_text(text)
    return tmp_path


@contextmanager
def served(folder: Path, *options: str) -> Iterator[str]:
    """`adaptive-batching serve app:service`, as long as the block runs."""
    command = [*_COMMAND, "serve", "app:service", "--port", "0", *options]
    server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    with server.stdout:
        try:
            yield server.stdout.readline().split()[1].removesuffix("/digit")
        finally:
            server.send_signal(signal.SIGTERM)
            assert server.wait(30) == 0


def run(folder: Path, *command: str) -> str:
    """What a command prints, if it ends well."""
    environment = os.environ | {"COLUMNS": "200"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_ten_minutes_and_last_week(folder: Path) -> None:
    """The model is timed and served, and answers all of the sixty-four clients; the traffic is
    recorded, fitted, simulated and planned for, with the commands of the second page.
    """
    assert run(folder, sys.executable, "slow.py").count("64 images") == 2
    with served(folder, "--record", "week.csv.gz") as url:
        shown = run(folder, sys.executable, "clients.py", f"{url}/digit")
    assert "{200: 3200}" in shown
    page = (TUTORIALS / "last_week.md").read_text().replace("\\\n", " ")
    commands = re.findall(
        r"^\$ adaptive-batching (fit|simulate|recommend)(.*)$", page, re.MULTILINE
    )
    assert [name for name, _ in commands] == [
        "fit",
        "simulate",
        "simulate",
        "recommend",
        "recommend",
    ]
    for name, options in commands:
        patient = re.sub(r"\d+ms", "10s", options)
        assert run(folder, *_COMMAND, name, *patient.split())
