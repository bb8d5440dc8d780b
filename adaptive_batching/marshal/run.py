"""Runs a service as a program: until it is told to stop, and then to the last answer."""

import asyncio
import logging
import resource
import signal
from collections.abc import Callable, Collection, Mapping, Sequence

from adaptive_batching.dispatcher import Observer
from adaptive_batching.errors import BatchingError
from adaptive_batching.marshal.running import NO_OBSERVERS, Running
from adaptive_batching.marshal.service import Service
from adaptive_batching.workers.pinning import pinned

_log = logging.getLogger("adaptive_batching")
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_OPEN_FILES = 65_536


async def run_service(
    service: Service,
    host: str = "127.0.0.1",
    port: int = 8000,
    *,
    drain_delay: float = 0.2,
    drain_timeout: float = 30.0,
    observers: Mapping[str, Sequence[Observer]] = NO_OBSERVERS,
    on_ready: Callable[[Running], None] | None = None,
    cpus: Collection[int] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then answer what was accepted; a second signal ends it now.

    A signal that comes while the workers load ends it just as well. SIGHUP renews the workers.

    Args:
        service: What is served.
        host: The address to listen on.
        port: The port; 0 takes a free one.
        drain_delay: Seconds to go on accepting while `/readyz` says no: load balancers need some
            time to look elsewhere.
        drain_timeout: Seconds that the last requests have.
        observers: By path, who is told about its batches and requests.
        on_ready: Called once requests are answered.
        cpus: The cores that this process keeps to; workers have their own.

    Raises:
        WorkerStartError: A worker could not load its handler.
        ListenError: The port is taken, or the address is not ours.
        ValueError: The machine does not have the cores.
    """
    _allow_many_connections()
    with pinned(cpus):
        told = _told_to_stop()  # before anything is started that would have to be stopped
        running = service.prepared(observers)
        starting = asyncio.ensure_future(running.start(host, port))
        restarting = _restart_on_hangup(running)
        try:
            await asyncio.wait({starting, told}, return_when=asyncio.FIRST_COMPLETED)
            if told.done():
                return
            await starting
            if on_ready is not None:
                on_ready(running)
            await told
            running.announce_end()
            await asyncio.sleep(drain_delay)
        finally:
            for task in (starting, restarting):
                task.cancel()
            await asyncio.gather(starting, restarting, return_exceptions=True)
            await running.stop(drain_timeout)


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


def _restart_on_hangup(running: Running) -> asyncio.Task[None]:
    """Renew the workers at each SIGHUP; those that come during a restart lead to one more."""
    loop = asyncio.get_running_loop()
    hung_up = asyncio.Event()
    loop.add_signal_handler(signal.SIGHUP, hung_up.set)

    async def restart_again_and_again() -> None:
        while True:
            await hung_up.wait()
            hung_up.clear()
            _log.info("restarting the workers")
            try:
                await running.restart_workers()
            except BatchingError as error:
                _log.error("%s", error)
            else:
                _log.info("the workers have been restarted")

    return loop.create_task(restart_again_and_again())
