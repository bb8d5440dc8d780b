"""Parts of batch keys, which are remembered long after the requests that brought them."""

from collections.abc import Hashable
from hashlib import blake2b

import msgspec

_LONG = 2**10  # bytes
_DIGEST = 32  # bytes: no two texts are known that have the same
_encode = msgspec.msgpack.Encoder().encode


def brief(part: Hashable) -> Hashable:
    """Return the part itself, or if it is long what stands for it and for nothing else.

    Args:
        part: Of texts, bytes and numbers, in tuples.
    """
    text = _encode(part)
    return part if len(text) <= _LONG else blake2b(text, digest_size=_DIGEST).digest()
