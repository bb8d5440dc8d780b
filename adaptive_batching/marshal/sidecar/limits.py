"""What a sidecar does not exceed, whoever comes: it refuses before memory runs out."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from adaptive_batching.marshal.http.checks import check_header_name
from adaptive_batching.marshal.sidecar.route import Route


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of all routes together.

    Attributes:
        max_in_flight: Requests at a time.
        max_queue_bytes: Bytes of all bodies that are kept for batches.
        max_connections: Of clients; never more than three quarters of the files that the process
            may have open.
        tenant_header: By which tenants are told apart, who share the servers of each route; empty
            if they are not.
        max_per_tenant: Requests of one tenant at a time.
    """

    max_in_flight: int = 4096
    max_queue_bytes: int = 2**30
    max_connections: int = sys.maxsize
    tenant_header: str = ""
    max_per_tenant: int = 256

    def check(self, routes: Iterable[Route]) -> Self:
        """Return it if every route's largest body fits, and tenants can be told apart.

        Raises:
            ValueError: One does not, or they can't.
        """
        if self.tenant_header:
            check_header_name("tenant_header", self.tenant_header)
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
