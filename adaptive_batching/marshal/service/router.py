"""What answers every request of a service: its endpoints, and its pages."""

from collections.abc import Sequence

from aiohttp import web

from adaptive_batching.marshal.admin.active_health_check import check_of_examples
from adaptive_batching.marshal.admin.health import check_ready, health_pages
from adaptive_batching.marshal.admin.openapi.pages import make_documents
from adaptive_batching.marshal.admin.page import Page, find_page, page_of
from adaptive_batching.marshal.http.limits import MemoryLimit
from adaptive_batching.marshal.http.request import Request, path_of, request_of
from adaptive_batching.marshal.http.response import Response, as_aiohttp
from adaptive_batching.marshal.http.router import Router
from adaptive_batching.marshal.service.description import ServiceDescription
from adaptive_batching.marshal.service.endpoints import PAGES
from adaptive_batching.marshal.service.runtimes.endpoint_runtime import EndpointRuntime
from adaptive_batching.marshal.service.runtimes.endpoint_runtimes import EndpointRuntimes


class ServiceRouter(Router[EndpointRuntime]):
    """Answers all requests of a service, whatever speaks HTTP before it.

    Args:
        description: Says what holds for all requests together.
        runtimes: The endpoints.
        shown: Which pages of its health clients may see.

    Raises:
        TypeError: Two declared types have one name, so that the documents can't be made.

    Attributes:
        health: `/healthz`, `/readyz` and `/metrics`.
        pages: What clients may look at, by path: its health and the documents.
    """

    def __init__(
        self,
        description: ServiceDescription,
        runtimes: EndpointRuntimes,
        shown: Sequence[str] = PAGES,
    ) -> None:
        super().__init__(description.max_in_flight, MemoryLimit(description.max_queue_bytes))
        self._runtimes = runtimes
        self._endpoints = runtimes.by_path
        deep_check = check_of_examples(runtimes.by_path)
        self.health = health_pages(self._check_ready, deep_check, runtimes.metrics)
        self.pages: dict[str, Page] = {path: self.health[path] for path in shown}
        if description.documented:
            documents = make_documents(description.name, list(description), shown)
            self.pages.update((path, page_of(document)) for path, document in documents.items())
        for endpoint in runtimes.by_path.values():
            endpoint.body_timeout = description.body_timeout

    def find(self, target: str) -> EndpointRuntime | None:
        """The endpoint of a path and query; None for a page, or for nothing that there is."""
        return self._endpoints.get(target) or self._endpoints.get(path_of(target))

    def label_of(self, target: str) -> str:
        """What a request for a target is called in the log: an endpoint, a page or `other`."""
        path = path_of(target)
        return path if path in self.pages else super().label_of(target)

    async def show(self, request: Request) -> Response:
        """Show a page.

        Raises:
            Exception: There is none, or it has nothing to show.
        """
        return await find_page(self.pages, path_of(request.target), request.method)(request)

    async def answer_passed(self, request: web.BaseRequest) -> web.StreamResponse:
        """Show a page to a client of our own server.

        Raises:
            Exception: There is none, or it has nothing to show.
        """
        return as_aiohttp(await self.show(request_of(request)))

    def _check_ready(self) -> None:
        check_ready(self._runtimes.dispatchers, draining=self.draining)
