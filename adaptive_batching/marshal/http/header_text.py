"""Headers that are not text, which HTTP allows and aiohttp reads, but can't write.

Its parser makes lone surrogates of bytes that are no UTF-8, and its writer, as of 3.14.5, leaves
those out: `ad`, such a byte and `min` would become `admin` on their way.
"""

from collections.abc import Iterable

from multidict import CIMultiDict

from adaptive_batching.marshal.http.error_responses import Rejected


def check_text(values: Iterable[str]) -> None:
    """See to it that what is passed on to a server is passed on as it is.

    Raises:
        Rejected: Some is no text.
    """
    if not _are_text(values):
        raise Rejected(400, "malformed")


def head_bytes(line: str, headers: CIMultiDict[str]) -> bytes | None:
    """The head of an answer, if aiohttp could not write it as it came."""
    if _are_text(headers.values()):
        return None
    fields = [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([line, *fields, "", ""]).encode("utf-8", "surrogateescape")


def _are_text(values: Iterable[str]) -> bool:
    return all(value.isascii() or not _has_surrogates(value) for value in values)


def _has_surrogates(value: str) -> bool:
    return any("\ud800" <= each <= "\udfff" for each in value)
