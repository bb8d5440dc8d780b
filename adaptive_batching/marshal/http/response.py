"""An answer, and how it goes over a connection."""

import re
from collections.abc import Mapping
from email.utils import formatdate
from http import HTTPStatus
from time import monotonic

import msgspec
from aiohttp import web

_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")  # RFC 9110, 5.5: all but the tab
_PHRASES = {status.value: status.phrase for status in HTTPStatus}

WITHOUT_BODY = frozenset({204, 304})
"""Statuses of answers that end with their head: a client would take a body for the next answer
(RFC 9112, 6.3)."""


class Response(msgspec.Struct, frozen=True):
    """An answer that is whole, for any server to send.

    Attributes:
        status: Of HTTP.
        headers: All but the body's length, the date and those of the connection.
        body: What follows.
        closes: Whether the connection can't be used any further.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    closes: bool = False


class _Clock:
    """The date for answers, made once a second."""

    def __init__(self) -> None:
        self._until, self._date = 0.0, ""

    def date(self) -> str:
        """The date as answers say it."""
        now = monotonic()
        if now >= self._until:
            self._until, self._date = now + 1.0, formatdate(usegmt=True)
        return self._date


date_now = _Clock().date


def head_of(response: Response, connection: str) -> bytes:
    """The head of an answer, up to the empty line.

    Args:
        response: The answer.
        connection: What becomes of the connection: `close`, `keep-alive`, or empty for HTTP/1.1's
            default.

    Raises:
        ValueError: A header has a line break, which would make two of it.
    """
    status, headers = response.status, response.headers
    lines = [f"{name}: {value}" for name, value in headers.items()]
    if not is_one_line("".join(lines)):
        raise ValueError(f"expected headers of one line each, got {lines!r}")
    if status not in WITHOUT_BODY:
        lines.append(f"Content-Length: {len(response.body)}")
    if "Date" not in headers:
        lines.append(f"Date: {date_now()}")
    if connection:
        lines.append(f"Connection: {connection}")
    first = f"HTTP/1.1 {status} {_PHRASES.get(status, '')}"
    return "\r\n".join([first, *lines, "", ""]).encode("utf-8", "surrogateescape")


def is_one_line(text: str) -> bool:
    """Whether a header can be said, and is not two."""
    return text.isprintable() or not _CONTROL.search(text)


def as_aiohttp(response: Response) -> web.Response:
    """An answer as aiohttp sends it."""
    said = web.Response(status=response.status, headers=response.headers, body=response.body)
    if response.closes:
        said.force_close()
    return said
