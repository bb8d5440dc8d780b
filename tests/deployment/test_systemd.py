"""The units of docs/deployment/systemd, read by systemd's own tools."""

import configparser
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from adaptive_batching.cli.commands.serve import command

UNITS = Path(__file__).parents[2] / "docs" / "deployment" / "systemd"
PROGRAM = "/opt/adaptive-batching/bin/adaptive-batching"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_systemd_would_load_them(tmp_path):
    """With the program where it is here; what the service may do is little."""
    for unit in UNITS.iterdir():
        here = unit.read_text().replace(PROGRAM, str(Path(sys.executable).resolve()))
        (tmp_path / unit.name).write_text(here)
    service = str(tmp_path / "batching.service")
    checks = (
        ["verify", service, str(tmp_path / "batching.socket")],
        ["security", "--offline=true", "--threshold=20", service],
    )
    for check in checks:
        done = subprocess.run(
            ["systemd-analyze", *check], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr
        assert str(tmp_path) not in done.stderr  # a warning about one of them


def test_its_command_is_of_today():
    """It ends before systemd would kill it."""
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str
    parser.read(UNITS / "batching.service")
    service = parser["Service"]
    program, name, *arguments = shlex.split(service["ExecStart"])
    given = command.make_context(name, arguments).params
    assert (program, name, given["unix_socket"]) == (PROGRAM, "serve", None)
    assert given["drain_delay"] + given["drain_timeout"] < int(service["TimeoutStopSec"])
