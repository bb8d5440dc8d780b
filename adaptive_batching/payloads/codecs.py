"""The forms in which an item or a result can be a body."""

from collections.abc import Sequence
from enum import Enum
from typing import Any


class Codec(Enum):
    """A form, known to both sides before anything is sent: no body says how to read it."""

    JSON = "json"
    MSGPACK = "msgpack"
    RAW = "raw"
    NPY = "npy"
    MULTIPART = "multipart"

    @property
    def media_types(self) -> tuple[str, ...]:
        """What clients call it; the first is what we do."""
        return _MEDIA_TYPES[self]


_MEDIA_TYPES = {
    Codec.JSON: ("application/json",),
    Codec.MSGPACK: (
        "application/msgpack",
        "application/x-msgpack",
        "application/vnd.msgpack",
    ),
    Codec.RAW: ("application/octet-stream",),
    Codec.NPY: ("application/x-npy",),
    Codec.MULTIPART: ("multipart/form-data",),
}


_NAMES = [codec.value for codec in Codec]


def parse_codecs(parameter: str, names: str | Sequence[str]) -> tuple[Codec, ...]:
    """The codecs of these names; the first is meant where a client doesn't say.

    Raises:
        TypeError: They are no names.
        ValueError: There is no such codec, or it is named twice, or none is.
    """
    listed: Sequence[Any] = [names] if isinstance(names, str) else list(names)
    for name in listed:
        if not isinstance(name, str):
            raise TypeError(f"{parameter}: expected {_known()}, got {name!r}")
        if name not in _NAMES:
            raise ValueError(f"{parameter}: expected {_known()}, got {name!r}")
    if not listed or len(set(listed)) < len(listed):
        raise ValueError(f"{parameter}: expected one or several of {_known()}, got {names!r}")
    return tuple(Codec(name) for name in listed)


def _known() -> str:
    return ", ".join(_NAMES)
