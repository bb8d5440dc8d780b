"""Reads the tenant of a request, and how urgent it says that it is."""

from collections.abc import Hashable, Mapping

from adaptive_batching.core import Priority

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
