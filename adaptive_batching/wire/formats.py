"""The protocols by name."""

from typing import Any

from adaptive_batching.wire.exchange import Format
from adaptive_batching.wire.generic import GenericJSON, parse_pointer
from adaptive_batching.wire.tensorflow import TensorFlowServing

PROTOCOLS = ("json", "tensorflow")


def make_format(name: str, items: str = "", results: str = "") -> Format[Any]:
    """Make the format of a protocol.

    Args:
        name: One of `PROTOCOLS`.
        items: Of `json`: a JSON pointer to the list of a request.
        results: Of `json`: a JSON pointer to the list of an answer.

    Raises:
        ValueError: There is no such protocol, or a pointer is none or has no use.
    """
    if name == "json":
        return GenericJSON(parse_pointer(items), parse_pointer(results))
    if items or results:
        raise ValueError(f"expected --items and --results with json only, got them with {name}")
    if name == "tensorflow":
        return TensorFlowServing()
    raise ValueError(f"expected one of {', '.join(PROTOCOLS)}, got {name!r}")
