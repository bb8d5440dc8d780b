"""What works where parts that only Linux has are missing, as on macOS, and what says so."""

import subprocess
import sys
from pathlib import Path

# Imported by every Python process that finds it, the worker processes among them.
ABSENT = """
import os, select, socket
for module, names in (
    (os, ("sched_getaffinity", "sched_setaffinity", "memfd_create", "O_PATH", "pidfd_open")),
    (select, ("epoll",)),
    (socket, ("SO_PEERCRED",)),
):
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
"""
PROGRAM = """
import asyncio, os, urllib.request
from adaptive_batching import Processes, Service, batched

class Double:
    def __call__(self, numbers: list[int]) -> list[int]:
        assert not hasattr(os, "sched_getaffinity")
        return [2 * number for number in numbers]

service = Service()
service.endpoint("/double")(Double)

def ask(url):
    return urllib.request.urlopen(f"{url}/double", data=b"21").read()

async def said_by(**options):
    try:
        await batched(**options)(Double)(1)
    except Exception as error:
        return f"{type(error).__name__}: {error}"

async def main():
    async with batched(workers=Processes(1))(Double) as double:
        print(await double.map(range(3)))
    print(await batched(lambda items: items)(3))
    async with service.running() as running:
        print(await asyncio.to_thread(ask, running.url))
    print(await said_by(workers=Processes(1, cpus=[0])))
    print(await said_by(workers="unix:model.sock"))

if __name__ == "__main__":
    asyncio.run(main())
"""


def test_functions_processes_and_services_run(tmp_path: Path) -> None:
    """Batches run in threads, in processes and behind HTTP; cores and named sockets need Linux."""
    (tmp_path / "sitecustomize.py").write_text(ABSENT)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, program],
        cwd=tmp_path,
        env={"PYTHONPATH": f"{tmp_path}:{Path.cwd()}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [
        "[0, 2, 4]",
        "3",
        "b'42'",
        (
            "WorkerStartError: the workers could not be started: expected no cpus here, for only"
            " Linux keeps a process to some cores"
        ),
        "WorkerStartError: can't listen on unix:model.sock: named sockets need Linux",
    ]


def test_the_pure_tests_pass(tmp_path: Path) -> None:
    """What decides needs nothing of the system; a few of its tests stand for all."""
    (tmp_path / "sitecustomize.py").write_text(ABSENT)
    tests = ["tests/core/test_permits.py", "tests/core/test_load.py"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    env = {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
