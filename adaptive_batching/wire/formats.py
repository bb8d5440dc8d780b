"""The protocols by name."""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from adaptive_batching.errors import SettingError
from adaptive_batching.wire.exchange import Format
from adaptive_batching.wire.generic import GenericJSON
from adaptive_batching.wire.msgpack import GenericMsgpack
from adaptive_batching.wire.open_inference import OpenInference
from adaptive_batching.wire.openai import OpenAIEmbeddings
from adaptive_batching.wire.packed import Packed
from adaptive_batching.wire.pointer import parse_pointer
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
_USED_BY: Mapping[str, Collection[str]] = {
    "items": ("bentoml", "json", "msgpack"),
    "results": ("json", "msgpack"),  # an answer of bentoml is all results
    "secret_file": ("packed",),
    "packed_path": ("packed",),
}


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
        secret: Of `packed`: what the application asks of what packs requests for it.
        packed_path: Of `packed`: where it takes those of all paths; None for each at its own.

    Raises:
        SettingError: There is no such protocol, or something is missing, wrong or of no use to it.
    """
    if name not in PROTOCOLS:
        raise SettingError("protocol", f"expected one of {', '.join(PROTOCOLS)}, got {name!r}")
    _check_used(
        name,
        items=items or None,
        results=results or None,
        secret_file=secret,
        packed_path=packed_path,
    )
    if name == "bentoml" and not items:
        raise SettingError("items", "expected the parameter of bentoml's endpoint, such as /texts")
    if name in _WITH_POINTERS:
        pointers = parse_pointer("items", items), parse_pointer("results", results)
        return _WITH_POINTERS[name](*pointers)
    return Packed(secret, packed_path) if name == "packed" else _OTHERS[name]()


def _check_used(protocol: str, **settings: str | None) -> None:
    """See to it that nothing is said that the protocol has no use for."""
    for key, value in settings.items():
        if value is not None and protocol not in _USED_BY[key]:
            those = " or ".join(_USED_BY[key])
            raise SettingError(key, f"expected it with {those} only, got it with {protocol}")
