"""Which headers keep the requests of a route apart."""

from collections.abc import Sequence

from adaptive_batching.errors import SettingError
from adaptive_batching.marshal.http.checks import check_header_name
from adaptive_batching.marshal.http.hop_by_hop import HOP_BY_HOP
from adaptive_batching.wire.whole_requests import MARK

PARTITION_BY = ("accept", "authorization", "x-api-key")
"""Headers that keep requests apart, and are what the server is told of those in a batch."""

_OF_NO_CLIENT = HOP_BY_HOP | {"content-length", "content-type", "host"}
_OTHERWISE = {
    "accept-encoding": "the server is asked for identity, for a batch's answer has to be cut",
    "expect": "the sidecar itself answers it",
    "x-request-timeout-ms": "the server is told what is left to who waits longest in the batch",
    MARK: "it says that a body is packed, which no client may",
}
"""What becomes of headers that the server is not told as their clients said them."""


def partition(partition_by: Sequence[str], shared_headers: Sequence[str]) -> tuple[str, ...]:
    """All headers that keep requests apart.

    Args:
        partition_by: Those besides `PARTITION_BY`.
        shared_headers: Those of `PARTITION_BY` that do not.

    Raises:
        SettingError: One can't be such a header, or is said to be both.
    """
    for header in partition_by:
        check_header_name("partition_by", header)
        if header.lower() in _OF_NO_CLIENT:
            msg = f"expected headers that say something of the client, got {header!r}"
            raise SettingError("partition_by", msg)
        if why := _OTHERWISE.get(header.lower()):
            msg = f"expected headers that the server is told as they came, got {header!r}: {why}"
            raise SettingError("partition_by", msg)
    own = {header.lower(): header for header in partition_by}
    for header in shared_headers:
        if header.lower() not in PARTITION_BY:
            msg = f"expected some of Accept, Authorization and X-Api-Key, got {header!r}"
            raise SettingError("shared_headers", msg)
        if header.lower() in own:
            msg = f"expected a header that is not in partition_by as well, got {header!r}"
            raise SettingError("shared_headers", msg)
    shared = {header.lower() for header in shared_headers}
    usual = {header: header for header in PARTITION_BY if header not in shared}
    return tuple({**usual, **own}.values())
