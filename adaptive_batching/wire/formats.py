"""The protocols by name."""

from collections.abc import Callable, Mapping
from typing import Any

from adaptive_batching.wire.exchange import Format
from adaptive_batching.wire.generic import GenericJSON, parse_pointer
from adaptive_batching.wire.open_inference import OpenInference
from adaptive_batching.wire.openai import OpenAIEmbeddings
from adaptive_batching.wire.tei import TextEmbeddings
from adaptive_batching.wire.tensorflow import TensorFlowServing

_WITH_POINTERS: Mapping[str, Callable[..., Format[Any]]] = {"json": GenericJSON}
_OTHERS: Mapping[str, Callable[[], Format[Any]]] = {
    "kserve-v1": TensorFlowServing,
    "open-inference": OpenInference,
    "openai-embeddings": OpenAIEmbeddings,
    "tei": TextEmbeddings,
    "tensorflow": TensorFlowServing,
}

PROTOCOLS = tuple(sorted({**_WITH_POINTERS, **_OTHERS}))


def make_format(name: str, items: str = "", results: str = "") -> Format[Any]:
    """Make the format of a protocol.

    Args:
        name: One of `PROTOCOLS`.
        items: Of `json`: a JSON pointer to the list of a request.
        results: Of `json`: a JSON pointer to the list of an answer.

    Raises:
        ValueError: There is no such protocol, or a pointer is none or has no use.
    """
    if name in _WITH_POINTERS:
        return _WITH_POINTERS[name](parse_pointer(items), parse_pointer(results))
    if name not in _OTHERS:
        raise ValueError(f"expected one of {', '.join(PROTOCOLS)}, got {name!r}")
    if items or results:
        those = " or ".join(_WITH_POINTERS)
        raise ValueError(f"expected --items and --results with {those} only, got them with {name}")
    return _OTHERS[name]()
