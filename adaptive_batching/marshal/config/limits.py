"""Limits of a sidecar: it refuses requests before its memory runs out."""

import sys
from collections.abc import Iterable
from typing import Annotated, Self

import msgspec

from adaptive_batching.marshal.config.quantities import Bytes, Count, Header, means
from adaptive_batching.marshal.sidecar.route import Route


class Bounds(msgspec.Struct, frozen=True):
    """Limits of all routes together."""

    max_queue_bytes: Annotated[
        Bytes, means("Bytes of all requests that arrive, wait or run in batches.")
    ] = Bytes(2**30)
    max_in_flight: Annotated[Count, means("Requests at a time.")] = 4096
    max_connections: Annotated[
        int,
        msgspec.Meta(ge=1),
        means(
            "Connections of clients at a time; at most three quarters of the allowed open files.",
            default="from the allowed open files",
        ),
    ] = sys.maxsize
    tenant_header: Annotated[
        Header, means("Header that tells tenants apart, such as X-Tenant.", section="Tenants")
    ] = Header()
    max_per_tenant: Annotated[Count, means("Requests of one tenant at a time.")] = 256

    def check(self, routes: Iterable[Route]) -> Self:
        """Return these limits if each route's largest body fits and tenants can be told apart.

        Raises:
            ValueError: One does not, or they can't.
        """
        for route in routes:
            if route.terms.max_body > self.max_queue_bytes:
                raise ValueError(
                    f"max_queue_bytes: expected at least the max_body of {route.name},"
                    f" {route.terms.max_body}, got {self.max_queue_bytes}"
                )
            if route.fairness.weights and not self.tenant_header:
                raise ValueError(
                    f"tenant_weights: expected --tenant-header as well, which tells the tenants of"
                    f" {route.name} apart"
                )
        return self


DEFAULT_BOUNDS = Bounds()
