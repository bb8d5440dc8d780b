"""The tenant of a request, how urgent it says that it is, and how many a tenant may have."""

from collections import Counter
from collections.abc import Hashable, Mapping

from adaptive_batching.core import Priority
from adaptive_batching.marshal.http.error_responses import Rejected

_LONGEST = 256  # characters of a name; longer ones are one tenant
_HIGH = Priority.HIGH.value


def tenant_of(headers: Mapping[str, str], header: str) -> str:
    """The tenant that a header names; requests without it are those of a tenant of their own."""
    return headers.get(header, "")[:_LONGEST]


class Claims:
    """Reads them from headers.

    Args:
        tenant_header: That names the tenant; empty if tenants are not told apart.
        priority_header: That says `high`; whatever else it says is normal. Empty if none has any.
    """

    __slots__ = ("_priority_header", "_tenant_header")

    def __init__(self, tenant_header: str, priority_header: str) -> None:
        self._tenant_header = tenant_header.lower()
        self._priority_header = priority_header.lower()

    def of(self, headers: Mapping[str, str]) -> tuple[Hashable, Priority]:
        """Tenant and priority of a request."""
        tenant = tenant_of(headers, self._tenant_header) if self._tenant_header else None
        says = headers.get(self._priority_header, "") if self._priority_header else ""
        return tenant, Priority.HIGH if says.strip().lower() == _HIGH else Priority.NORMAL


class Tenants:
    """Counts requests by a header, so that a flood of one tenant leaves room for the others.

    A tenant that has too many under way is told to come again. Requests without the header are
    a tenant of their own.

    Args:
        header: That names a tenant; empty if they are not told apart.
        limit: Requests of one tenant at a time.

    Attributes:
        header: In lower case.
    """

    def __init__(self, header: str, limit: int) -> None:
        self.header = header.lower()
        self._limit = limit
        self._under_way: Counter[str] = Counter()

    def enter(self, headers: Mapping[str, str]) -> str:
        """Count a request, and return what `leave` has to be told.

        Raises:
            Rejected: Its tenant has as many under way as it may.
        """
        if not self.header:
            return ""
        name = tenant_of(headers, self.header)
        if self._under_way[name] >= self._limit:
            raise Rejected(429, "tenant_limit", headers={"Retry-After": "1"})
        self._under_way[name] += 1
        return name

    def leave(self, name: str) -> None:
        """It has ended; a tenant that has none under way is forgotten."""
        if self.header:
            self._under_way[name] -= 1
            if not self._under_way[name]:
                del self._under_way[name]
