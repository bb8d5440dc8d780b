"""The protocols by name."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from adaptive_batching.wire.exchange import Format
from adaptive_batching.wire.generic import GenericJSON, parse_pointer
from adaptive_batching.wire.msgpack import GenericMsgpack
from adaptive_batching.wire.open_inference import OpenInference
from adaptive_batching.wire.openai import OpenAIEmbeddings
from adaptive_batching.wire.packed import Packed
from adaptive_batching.wire.tei import TextEmbeddings
from adaptive_batching.wire.tensorflow import TensorFlowServing
from adaptive_batching.wire.torchserve import TorchServe

_WITH_POINTERS: Mapping[str, Callable[..., Format[Any]]] = {
    "bentoml": GenericJSON,
    "json": GenericJSON,
    "msgpack": GenericMsgpack,
}
_OTHERS: Mapping[str, Callable[[], Format[Any]]] = {
    "kserve-v1": TensorFlowServing,
    "open-inference": OpenInference,
    "openai-embeddings": OpenAIEmbeddings,
    "packed": Packed,
    "tei": TextEmbeddings,
    "tensorflow": TensorFlowServing,
    "tensorflow-columns": partial(TensorFlowServing, columns=True),
    "torchserve": TorchServe,
}

PROTOCOLS = tuple(sorted({**_WITH_POINTERS, **_OTHERS}))


def make_format(
    name: str,
    items: str = "",
    results: str = "",
    secret: str | None = None,
    packed_path: str | None = None,
) -> Format[Any]:
    """Make the format of a protocol.

    Args:
        name: One of `PROTOCOLS`.
        items: Of `json`, `msgpack` and `bentoml`: a JSON pointer to the list of a request.
        results: Of `json` and `msgpack`: a JSON pointer to the list of an answer.
        secret: Of `packed`: what the application asks of who packs requests for it.
        packed_path: Of `packed`: where it takes those of all paths; None for each at its own.

    Raises:
        ValueError: There is no such protocol, or something of this is missing, wrong or of no use.
    """
    if secret is not None and name != "packed":
        raise ValueError(f"expected a secret with packed only, got one with {name}")
    if packed_path is not None and name != "packed":
        raise ValueError(f"expected a packed path with packed only, got one with {name}")
    if name in _WITH_POINTERS:
        if name == "bentoml" and (not items or results):
            raise ValueError(
                "expected --items with bentoml, the parameter of its endpoint such as /texts, "
                "and no --results: they are the whole answer"
            )
        return _WITH_POINTERS[name](parse_pointer(items), parse_pointer(results))
    if name not in _OTHERS:
        raise ValueError(f"expected one of {', '.join(PROTOCOLS)}, got {name!r}")
    if items or results:
        those = " or ".join(_WITH_POINTERS)
        raise ValueError(f"expected --items and --results with {those} only, got them with {name}")
    return Packed(secret, packed_path) if name == "packed" else _OTHERS[name]()
