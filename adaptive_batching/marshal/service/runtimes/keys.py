"""The keys of items: only items with equal keys share a batch."""

from collections.abc import Callable, Hashable, Mapping
from typing import Any

from adaptive_batching.errors import BatchKeyError
from adaptive_batching.marshal.http.error_responses import Rejected
from adaptive_batching.marshal.service.endpoints import LONGEST_KEY, Endpoint, PipelineEndpoint
from adaptive_batching.payloads.payload import Payload
from adaptive_batching.workers.handler.handler import name_of
from adaptive_batching.workers.handler.results import ask

KeyOf = Callable[[Mapping[str, str], int, bytes], Hashable]
"""The key of an item, of the headers of its request, the place of its codec, and its body."""


def key_of(endpoint: Endpoint | PipelineEndpoint) -> KeyOf | None:
    """What says the key of an endpoint's items; None if they have none."""
    if endpoint.key is None:
        return None
    if isinstance(endpoint.key, str):
        return _key_of_header(endpoint.key)
    return _key_of_item(endpoint.key, endpoint.contract.item)


def _key_of_header(name: str) -> KeyOf:
    """Make what takes the value of a header for the key; empty where there is none."""
    lower = name.lower()

    def key_of(headers: Mapping[str, str], _reads: int, _body: bytes) -> Hashable:
        value = headers.get(lower, "")
        if len(value) > LONGEST_KEY:
            raise Rejected(431, "headers_too_large")
        return value

    return key_of


def _key_of_item(function: Callable[[Any], Hashable], payload: Payload) -> KeyOf:
    """Make what reads an item and asks a function for its key."""
    readers, name = payload.readers(), name_of(function)
    asked = f"key: expected a key for each item from {name}"
    hashed = f"key: expected one that can be hashed from {name}, got one"

    def key_of(_headers: Mapping[str, str], reads: int, body: bytes) -> Hashable:
        item = readers[reads](body)
        key = ask(function, item, BatchKeyError, asked)
        ask(hash, key, BatchKeyError, hashed)
        return key

    return key_of
