"""What tests may rely on, however pytest was started."""

import subprocess
import sys

STARTS_ANOTHER = """
import signal, subprocess, sys
import tests.conftest
signal.raise_signal(signal.SIGINT)
shown = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
subprocess.run([sys.executable, "-c", shown], check=True)
"""


def test_programs_hear_ctrl_c_where_the_shell_ignores_it():
    """A program started by a test hears SIGINT, and the tests themselves go on ignoring it."""
    ignoring = ["sh", "-c", 'trap "" INT; exec "$@"', "sh"]
    command = [*ignoring, sys.executable, "-c", STARTS_ANOTHER]
    assert subprocess.run(command, capture_output=True, check=True).stdout == b"True\n"
