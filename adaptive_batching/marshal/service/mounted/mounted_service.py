"""The endpoints of a service in another program, and what answers their requests there."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from adaptive_batching.marshal.service.description import ServiceDescription
from adaptive_batching.marshal.service.router import ServiceRouter
from adaptive_batching.marshal.service.runtimes.endpoint_runtimes import EndpointRuntimes


class MountedService:
    """A service whose requests another server frames.

    Args:
        description: What is served, within which limits.

    Raises:
        TypeError: Two declared types have one name.

    Attributes:
        runtimes: The endpoints, not yet started.
        router: Answers their requests.
    """

    def __init__(self, description: ServiceDescription) -> None:
        self.runtimes = EndpointRuntimes(description, at_work=description.at_work)
        self.router = ServiceRouter(description, self.runtimes)
        self.runtimes.metrics.held_bytes = lambda: self.router.held.held
        self._drain_timeout = description.drain_timeout

    @asynccontextmanager
    async def running_workers(self) -> AsyncIterator[None]:
        """Have workers while the block runs; then log how many errors no line has told of yet.

        Raises:
            WorkerStartError: A worker could not load its handler.
        """
        try:
            async with self.runtimes.running(self._drain_timeout):
                yield
        finally:
            self.router.errors.flush()
