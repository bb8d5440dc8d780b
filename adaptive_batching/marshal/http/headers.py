"""The headers of a request: looked up by name in lower case, and kept as they came."""

from collections.abc import Iterable, Sequence

Pairs = Sequence[tuple[bytes, bytes]]
"""Names and values as they came: in their order and spelling, a repeated name each time."""

_AS_IS = "surrogateescape"  # bytes that are no UTF-8 become lone surrogates, and come back


class Headers(dict[str, str]):
    """Values by name in lower case; those of a repeated name are joined (RFC 9110, 5.2).

    Bytes that are no UTF-8 become lone surrogates, so that nothing is lost on the way back.

    Args:
        pairs: The headers as they came.

    Attributes:
        pairs: The same.
    """

    __slots__ = ("pairs",)

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs
        for name, value in pairs:  # not by `text_of`: two calls for each cost as much as all else
            self[name.decode("latin-1").lower()] = value.decode("utf-8", _AS_IS).strip(" \t")
        if len(self) != len(pairs):
            self._join()

    def each(self) -> Iterable[tuple[str, str]]:
        """Names and values, those of a repeated name each by itself; names may be in lower case."""
        return self.items() if len(self) == len(self.pairs) else self.spelled()

    def spelled(self) -> list[tuple[str, str]]:
        """Names and values as they came, as text."""
        return [
            (name.decode("latin-1"), value.decode("utf-8", _AS_IS).strip(" \t"))
            for name, value in self.pairs
        ]

    def _join(self) -> None:
        values: dict[str, list[str]] = {}
        for name, value in self.pairs:
            values.setdefault(text_of(name).lower(), []).append(text_of(value))
        for key, each in values.items():
            self[key] = ("; " if key == "cookie" else ", ").join(each)


def text_of(raw: bytes) -> str:
    """A part of a head as text, without the spaces around it; see `bytes_of`."""
    return raw.decode("utf-8", _AS_IS).strip(" \t")


def bytes_of(text: str) -> bytes:
    """The bytes that `text_of` has made this of."""
    return text.encode("utf-8", _AS_IS)
