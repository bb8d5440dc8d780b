"""A service at work: its workers, its listener, and how it ends without losing a request."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import monotonic

from adaptive_batching.dispatcher import NO_OBSERVERS, Observer
from adaptive_batching.errors import ConfigError, SettingError
from adaptive_batching.marshal.admin.operated import Operated
from adaptive_batching.marshal.checks import check_fits
from adaptive_batching.marshal.config.endpoints_file import EndpointsFile
from adaptive_batching.marshal.http.tracing import Tracer, with_tracer
from adaptive_batching.marshal.service.description import ServiceDescription
from adaptive_batching.marshal.service.endpoints import HEALTH, PAGES
from adaptive_batching.marshal.service.router import ServiceRouter
from adaptive_batching.marshal.service.runtimes.endpoint_runtimes import EndpointRuntimes
from adaptive_batching.units import counted, format_duration

_log = logging.getLogger("adaptive_batching")


class Running(Operated):
    """Serves some endpoints until it is stopped.

    Args:
        description: What is served, within which limits.
        admin: Host and port of the pages of operators; None leaves them out, and `/metrics` where
            clients are.
        observers: Those of each path.
        tracer: Makes spans of requests and batches: `instrumentation.tracing.Tracing`.
        file: Says what else holds for the endpoints, and may be written anew.

    Raises:
        ConfigError: The file says what can't be.

    Attributes:
        documented: Whether it describes itself to clients.
        endpoints: Those at work, by path; `dispatchers` has stages as well, by `/path:Stage`.
    """

    def __init__(
        self,
        description: ServiceDescription,
        *,
        admin: tuple[str, int] | None = None,
        observers: Mapping[str, Sequence[Observer]] = NO_OBSERVERS,
        tracer: Tracer | None = None,
        file: EndpointsFile | None = None,
    ) -> None:
        # endpoints that are described later are not served
        description = replace(description, endpoints=dict(description.endpoints))
        self._description, self._file = description, file
        self.documented = description.documented
        served = description if file is None else self._applied(file)
        labels = [label for endpoint in served for label in endpoint.labels]
        told = with_tracer(labels, observers, tracer)
        self._runtimes = EndpointRuntimes(served, told, at_work=served.at_work)
        self.endpoints = self._runtimes.by_path
        shown = PAGES if admin is None else HEALTH
        router = ServiceRouter(served, self._runtimes, shown)
        super().__init__(
            self._runtimes,
            self._runtimes.metrics,
            self._runtimes.live,
            router,
            health=router.health,
            admin=admin,
            tracer=tracer,
        )

    async def start(
        self,
        host: str,
        port: int,
        bound: socket.socket | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Listen and start the workers; returns when they are ready.

        Models may take minutes to load. Until then `/healthz` says yes and `/readyz` no, and what
        is sent all the same is refused, so that its client can go elsewhere.

        Raises:
            WorkerStartError: A worker could not load its handler.
            ListenError: The port is taken, or the address is not ours.
        """
        await self._begin()
        self.url = await self._server.open(host, port, bound, tls)
        began = monotonic()
        _log.info("loading %s", counted(self._runtimes.wanted_workers, "worker"))
        if self._file is not None:
            reading = self._keep_reading(self._file.written_anew, self._retune)
            self._tasks.append(asyncio.create_task(reading))
        await self._runtimes.start()
        _log.info("ready in %s, listening on %s", format_duration(monotonic() - began), self.url)

    async def refresh(self) -> None:
        """What SIGHUP and `POST /reload` do: read the file again, if any, and restart the workers.

        Raises:
            ConfigError: The file says what can't be: all is as before.
            WorkerStartError: One could not be started: the workers that are left go on.
            Draining: The service was stopped meanwhile.
        """
        async with self._refreshing:
            await self._retune()
            _log.info("restarting the workers")
            await self._runtimes.restart_workers()
            _log.info("the workers have been restarted")

    async def _retune(self) -> None:
        """Let hold what the file says now, if there is one; what waits, waits on."""
        if self._file is not None:
            self._runtimes.retune(self._applied(self._file))
            _log.info("limits and policies are as %s has them now", self._file.path)

    def _applied(self, file: EndpointsFile) -> ServiceDescription:
        """The description with what a file says now of its endpoints.

        Raises:
            ConfigError: It says what can't be.
        """
        endpoints = {each.path: each for each in file.applied(list(self._description))}
        for path, endpoint in endpoints.items():
            try:
                check_fits(endpoint.max_body, self._description.max_queue_bytes)
            except SettingError as error:
                raise ConfigError(f"{file.path}: {path}: {error}") from error
        return replace(self._description, endpoints=endpoints)
