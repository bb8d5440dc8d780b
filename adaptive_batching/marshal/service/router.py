"""What answers every request of a service: its endpoints, and its pages."""

from collections.abc import Mapping
from math import inf

from aiohttp import web

from adaptive_batching.marshal.admin.admin import Page, find_page
from adaptive_batching.marshal.http.limits import MemoryLimit
from adaptive_batching.marshal.http.request import path_of
from adaptive_batching.marshal.http.router import Router
from adaptive_batching.marshal.service.endpoint_runtime import EndpointRuntime


class ServiceRouter(Router[EndpointRuntime]):
    """Answers all requests of a service.

    Args:
        endpoints: By path.
        pages: What can be looked at, by path.
        max_in_flight: Requests at a time, whose bodies have to fit into memory together.
        body_timeout: Seconds that a body may take to arrive.
    """

    def __init__(
        self,
        endpoints: Mapping[str, EndpointRuntime],
        pages: Mapping[str, Page],
        *,
        max_in_flight: int,
        body_timeout: float,
    ) -> None:
        super().__init__(max_in_flight, MemoryLimit(inf))
        self._endpoints = endpoints
        self._pages = pages
        for endpoint in endpoints.values():
            endpoint.body_timeout = body_timeout

    def find(self, target: str) -> EndpointRuntime | None:
        """The endpoint of a path and query; None for a page, or for nothing that there is."""
        return self._endpoints.get(target) or self._endpoints.get(path_of(target))

    def label_of(self, target: str) -> str:
        """What a request for a target is called in the log: an endpoint, a page or `other`."""
        path = path_of(target)
        return path if path in self._pages else super().label_of(target)

    async def answer_passed(self, request: web.BaseRequest) -> web.StreamResponse:
        """Show a page.

        Raises:
            Exception: There is none, or it has nothing to show.
        """
        return await find_page(self._pages, request)(request)
