"""A service as it was described: its endpoints, and what holds for all of them together."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from adaptive_batching.marshal.checks import check_count, check_fits, check_path
from adaptive_batching.marshal.service.endpoints import PAGES, Endpoint, PipelineEndpoint
from adaptive_batching.workers.place import place
from adaptive_batching.workers.placement import Placement

if TYPE_CHECKING:  # worker processes import this module, but serve nothing
    from adaptive_batching.marshal.service.runtimes.endpoint_runtimes import EndpointRuntimes

_RESERVED = (*PAGES, "/openapi.json", "/docs")


@dataclass(frozen=True, slots=True)
class ServiceDescription:
    """What serves a service reads its endpoints and limits here.

    Attributes:
        name: What the service is called in messages.
        max_in_flight: Requests at a time.
        max_queue_bytes: Bytes of all their bodies.
        body_timeout: Seconds that a body may take to arrive.
        drain_timeout: Seconds that the last requests have at the end.
        documented: Whether the service describes itself to clients.
        endpoints: By path.
        at_work: The runtimes of the service that have been started.

    Raises:
        TypeError: A limit is no integer.
        ValueError: A limit is less than 1.
    """

    name: str
    max_in_flight: int
    max_queue_bytes: int
    body_timeout: float
    drain_timeout: float
    documented: bool
    endpoints: dict[str, Endpoint | PipelineEndpoint] = field(default_factory=dict)
    at_work: "list[EndpointRuntimes]" = field(default_factory=list)

    def __post_init__(self) -> None:
        check_count("max_in_flight", self.max_in_flight)
        check_count("max_queue_bytes", self.max_queue_bytes)

    def __iter__(self) -> Iterator[Endpoint | PipelineEndpoint]:
        return iter(self.endpoints.values())

    def check(self, path: str, max_body: int) -> None:
        """See to it that an endpoint can have this path and bodies of so many bytes.

        Raises:
            TypeError: The path is no text, or the number no integer.
            ValueError: The path can't be, or is taken, or no such body finds room.
        """
        check_path(path)
        if path in _RESERVED or path in self.endpoints:
            raise ValueError(f"path: expected one that is free, got {path}, which is taken")
        check_count("max_body", max_body)
        check_fits(max_body, self.max_queue_bytes)

    def relocate(self, path: str, workers: int | str | Placement) -> None:
        """Let a handler run elsewhere than its endpoint says: `ray:4` instead of two processes.

        Args:
            path: Of its endpoint.
            workers: As for `Service.endpoint`; cores that were named there are forgotten.

        Raises:
            KeyError: There is no such endpoint with a handler.
            ValueError: `workers` names nothing.
        """
        endpoint = self.endpoints.get(path)
        if not isinstance(endpoint, Endpoint):
            raise KeyError(f"path: expected an endpoint with a handler, got {path}")
        placement = place(endpoint.handler, workers)
        self.endpoints[path] = replace(endpoint, placement=placement)
