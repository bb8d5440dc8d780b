"""Handlers that do to their process what models and their libraries do to theirs."""

import ctypes
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import numpy as np

from adaptive_batching.workers.handler.results import CallRaised

LOCK = threading.Lock()

_C = ctypes.PyDLL(None)  # unlike CDLL, keeps the interpreter lock during a call


class Faulty:
    """Does what the first item says; anything else it returns as it came."""

    def __call__(self, items):
        return getattr(self, str(items[0]), self.echo)(items)

    def echo(self, items):
        return items

    def nap(self, items):
        time.sleep(0.2)
        return items

    def spin(self, items):
        while True:
            pass

    def hold_the_lock(self, items):
        """A C extension that computes for a minute without ever releasing the interpreter."""
        _C.sleep(3600)

    def stop(self, items):
        os.kill(os.getpid(), signal.SIGSTOP)

    def say_and_do(self, items):
        """Tell the program's reader which process is busy now."""
        sys.stdout.write(f"{os.getpid()}\n")
        return self(items[1:])

    def segfault(self, items):
        ctypes.string_at(0)

    def abort(self, items):
        os.abort()

    def leave(self, items):
        os._exit(0)

    def fork_and_leave(self, items):
        """Leave behind a process that has a copy of everything that we have open."""
        child = os.fork()  # noqa: TID251  that is what it is about
        if child:
            _note(items[1], child)
            os._exit(0)
        time.sleep(3600)

    def fork_and_come_back(self, items):
        """Both processes return; the one that was forked does when it is told to."""
        if os.fork() == 0:  # noqa: TID251  that is what it is about
            wait_for(items[1])
            _note(f"{items[1]}.back", os.getpid())
            return [f"forked: {item}" for item in items]
        return items

    def help_and_hang(self, items):
        """Start a program and wait for ever."""
        _note(items[1], subprocess.Popen(["sleep", "3600"]).pid)
        time.sleep(3600)

    def help(self, items):
        """Start a program, and leave it alone."""
        return [subprocess.Popen(["sleep", "3600"]).pid]

    def help_and_crash(self, items):
        deaf = ["sh", "-c", "trap '' TERM; echo; exec sleep 3600"]
        helper = subprocess.Popen(deaf, stdout=subprocess.PIPE)
        helper.stdout.readline()
        _note(items[1], helper.pid)
        os.abort()

    def share_and_crash(self, items):
        """Leave memory with a name to Python's own tracker of such."""
        _note(items[1], SharedMemory(create=True, size=1000).name)
        os.abort()

    def share_and_hang(self, items):
        _note(items[1], SharedMemory(create=True, size=1000).name)
        time.sleep(3600)

    def close_everything(self, items):
        """What daemons do when they start."""
        os.closerange(3, 256)
        time.sleep(3600)

    def real_time_signal(self, items):
        os.kill(os.getpid(), signal.SIGRTMIN + 1)

    def hoard(self, items):
        """Take small pieces of memory until the limit, as a leak does."""
        with limited_memory(2**26):
            hoard = []
            while True:
                hoard.append(bytearray(200))

    def hoard_beside_another(self, items):
        """As if an item had failed before the others came so far."""
        try:
            self.hoard(items)
        except MemoryError as error:
            return [CallRaised(error)]

    def one_large_array(self, items):
        with limited_memory(2**26):
            return [np.ones(2**27)]

    def half_a_gigabyte(self, items):
        return [np.empty(500_000_000, np.uint8)]

    def large_error(self, items):
        raise ValueError("x" * 5_000_000)

    def nested_too_deep(self, items):
        nested = []
        for _ in range(100_000):
            nested = [nested]
        return [nested]

    def not_a_number(self, items):
        return [float("nan")]

    def exit_on_arrival(self, items):
        return [ExitsOnArrival()]

    def error_that_exits_on_arrival(self, items):
        raise ErrorThatExitsOnArrival

    def garbage(self, items):
        """Write to the socket that is ours alone."""
        os.write(int(sys.argv[1]), b"\xff" * 100)
        time.sleep(3600)

    def find_a_lock(self, items):
        """Whether it is free here."""
        return [LOCK.acquire(timeout=0)]

    def open_files(self, items):
        return [sorted(os.readlink(f"/proc/self/fd/{fd}").partition(":")[0] for fd in _open())]


class ExitsOnArrival:
    """Ends the program that unpickles it."""

    def __reduce__(self):
        return sys.exit, ("unpickled",)


class ErrorThatExitsOnArrival(Exception):
    __reduce__ = ExitsOnArrival.__reduce__


class LoadsForever:
    """Says which process it is while it loads."""

    def __init__(self):
        sys.stdout.write(f"{os.getpid()}\n")
        time.sleep(3600)

    def __call__(self, items):
        return items


class limited_memory:
    """The process may have so many bytes more than now."""

    def __init__(self, more):
        self._more = more

    def __enter__(self):
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + self._more
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))

    def __exit__(self, *_):
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def wait_for(file):
    """Until there is such a file."""
    while not Path(file).exists():
        time.sleep(0.001)


def _note(file, pid):
    Path(file).write_text(str(pid))


def _open():
    return [fd for fd in range(3, 100) if Path(f"/proc/self/fd/{fd}").is_symlink()]
