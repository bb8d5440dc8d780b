"""Runs a service or a sidecar until it is told to stop, and then to the last answer."""

import asyncio
import gc
import logging
import resource
import signal
import socket
import ssl
from collections.abc import Callable, Collection
from typing import Protocol, TypeVar

from adaptive_batching.errors import BatchingError
from adaptive_batching.marshal.http.server.client_tls import ClientTls
from adaptive_batching.workers.pinning import pinned

_log = logging.getLogger("adaptive_batching")
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_OPEN_FILES = 65_536


class Program(Protocol):
    """What runs until it is told to stop."""

    async def start(
        self,
        host: str,
        port: int,
        bound: socket.socket | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Listen, on a socket if one is given, and be ready to answer when it returns."""
        ...

    def announce_end(self) -> None:
        """Be not ready any more, and answer all the same."""
        ...

    async def stop(self, timeout: float) -> None:  # noqa: ASYNC109  a drain, not a wait
        """Listen no more, and answer what came, for at most so many seconds."""
        ...

    async def refresh(self) -> None:
        """Do what SIGHUP is for.

        Raises:
            BatchingError: It can't be done, and all is as before.
        """
        ...


P = TypeVar("P", bound=Program)


async def run_until_told(
    program: P,
    host: str = "127.0.0.1",
    port: int = 8000,
    *,
    bound: socket.socket | None = None,
    drain_delay: float = 0.2,
    drain_timeout: float = 30.0,
    on_ready: Callable[[P], None] | None = None,
    cpus: Collection[int] | None = None,
    tls: ClientTls | None = None,
) -> None:
    """Run until SIGTERM or SIGINT, then answer what was accepted; a second signal ends it now.

    A signal that comes while it starts ends it just as well. SIGHUP refreshes it, and renews the
    certificate.

    Args:
        program: What is run.
        host: The address to listen on.
        port: The port; 0 takes a free one.
        bound: A socket to listen on instead.
        drain_delay: Seconds to go on accepting while `/readyz` says no: load balancers need some
            time to look elsewhere.
        drain_timeout: Seconds that the last requests have.
        on_ready: Called once requests are answered.
        cpus: The cores that this process keeps to; workers have their own.
        tls: What clients are met with; None for plain HTTP.

    Raises:
        WorkerStartError: A worker could not load its handler.
        ListenError: The port is taken, or the address is not ours.
        ValueError: The machine does not have the cores.
    """
    _allow_many_connections()
    with pinned(cpus):
        told = _told_to_stop()  # before anything is started that would have to be stopped
        context = None if tls is None else tls.context
        starting = asyncio.ensure_future(program.start(host, port, bound, context))
        refreshing = _refresh_on_hangup(program, tls)
        try:
            await asyncio.wait({starting, told}, return_when=asyncio.FIRST_COMPLETED)
            if told.done():
                return
            await starting
            _settle_memory()
            if on_ready is not None:
                on_ready(program)
            await told
            program.announce_end()
            await asyncio.sleep(drain_delay)
        finally:
            for task in (starting, refreshing):
                task.cancel()
            await asyncio.gather(starting, refreshing, return_exceptions=True)
            await program.stop(drain_timeout)


def _settle_memory() -> None:
    """What is there now stays: the garbage collector need not look through it time and again.

    Without it a tenth of the time of a loaded sidecar goes there.
    """
    gc.collect()
    gc.freeze()


def _allow_many_connections() -> None:
    """The default, 1024 open files, is for programs that still call select(2)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _told_to_stop() -> asyncio.Future[None]:
    """Done at the first signal; the next one has its usual effect, on the workers as well."""
    loop = asyncio.get_running_loop()
    told = loop.create_future()

    def stop() -> None:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)
        if not told.done():  # two may have come within one turn of the loop
            told.set_result(None)

    for number in _SIGNALS:
        loop.add_signal_handler(number, stop)
    return told


def _refresh_on_hangup(program: Program, tls: ClientTls | None) -> asyncio.Task[None]:
    """Refresh at each SIGHUP; those that come meanwhile lead to one more."""
    loop = asyncio.get_running_loop()
    hung_up = asyncio.Event()
    loop.add_signal_handler(signal.SIGHUP, hung_up.set)

    async def refresh_again_and_again() -> None:
        while True:
            await hung_up.wait()
            hung_up.clear()
            try:
                if tls is not None:
                    tls.renew()
                await program.refresh()
            except BatchingError as error:
                _log.error("%s", error)

    return loop.create_task(refresh_again_and_again())
