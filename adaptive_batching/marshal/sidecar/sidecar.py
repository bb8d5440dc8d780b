"""A proxy that lets requests for model servers share batches, and passes on all others."""

from collections.abc import Callable

from aiohttp import web

from adaptive_batching.marshal.http.error_responses import Rejected
from adaptive_batching.marshal.http.limits import MemoryLimit
from adaptive_batching.marshal.http.request import origin_form
from adaptive_batching.marshal.http.router import Router
from adaptive_batching.marshal.sidecar.route_runtime import RouteRuntime
from adaptive_batching.marshal.sidecar.tenancy import Tenants

FindRoute = Callable[[str], RouteRuntime | None]
"""The route of a path and query; None if there is none."""


class Sidecar(Router[RouteRuntime]):
    """Answers all requests for some model servers.

    Args:
        find_route: Knows the route of a request.
        max_in_flight: Requests at a time; more are refused.
        held: Counts the bytes of the bodies that are kept.
        tenants: Counts the requests of each tenant.
    """

    tunnels = True

    def __init__(
        self, find_route: FindRoute, max_in_flight: int, held: MemoryLimit, tenants: Tenants
    ) -> None:
        super().__init__(max_in_flight, held, tenants if tenants.header else None)
        self._find_route = find_route
        self._tenant_limits = tenants

    def find(self, target: str) -> RouteRuntime | None:
        """The route of a target; None if there is none."""
        path_and_query = origin_form("", target)
        return None if path_and_query is None else self._find_route(path_and_query)

    async def answer_passed(self, request: web.BaseRequest) -> web.StreamResponse:
        """Let a server answer a request, byte for byte.

        Raises:
            Exception: There is no answer.
        """
        target = origin_form(request.method, request.raw_path)
        if target is None:
            raise Rejected(400, "malformed", closes=True)
        self.check_room(self.in_flight)
        route = self._find_route(target)
        if route is None:
            raise Rejected(404, "not_found")
        tenant = self._tenant_limits.enter(request.headers)
        try:
            return await route.pass_on(request, target)
        finally:
            self._tenant_limits.leave(tenant)
