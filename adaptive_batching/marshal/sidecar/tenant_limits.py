"""What one tenant has under way, so that a flood of one leaves room for the others."""

from collections import Counter
from collections.abc import Mapping

from adaptive_batching.marshal.http.error_responses import Rejected
from adaptive_batching.marshal.sidecar.tenancy import tenant_of


class Tenants:
    """Counts requests by a header; a tenant that has too many under way is told to come again.

    Requests without the header are a tenant of their own.

    Args:
        header: That names a tenant; empty if they are not told apart.
        limit: Requests of one tenant at a time.
    """

    def __init__(self, header: str, limit: int) -> None:
        self._header = header.lower()
        self._limit = limit
        self._under_way: Counter[str] = Counter()

    def enter(self, headers: Mapping[str, str]) -> str:
        """Count a request, and return what `leave` has to be told.

        Raises:
            Rejected: Its tenant has as many under way as it may.
        """
        if not self._header:
            return ""
        name = tenant_of(headers, self._header)
        if self._under_way[name] >= self._limit:
            raise Rejected(429, "tenant_limit", headers={"Retry-After": "1"})
        self._under_way[name] += 1
        return name

    def leave(self, name: str) -> None:
        """It has ended; a tenant that has none under way is forgotten."""
        if self._header:
            self._under_way[name] -= 1
            if not self._under_way[name]:
                del self._under_way[name]
