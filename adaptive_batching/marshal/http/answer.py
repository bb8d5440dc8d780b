"""An answer on its way out, without what responses in general need."""

import re
from collections.abc import Mapping
from http import HTTPStatus

from aiohttp import HttpVersion11, web
from aiohttp.helpers import rfc822_formatted_time

_HEAD = (
    "HTTP/1.1 200 OK\r\n"
    "Content-Type: {media_type}\r\n"
    "Content-Length: %d\r\n"
    "X-Request-Id: %s\r\n"
    "Date: %s\r\n"
    "{more}"
    "\r\n"
)
_KNOWN = frozenset(HTTPStatus)
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")  # RFC 9110, 5.5: all but the tab
_WITHOUT_BODY = frozenset({204, 304})  # RFC 9112, 6.3
_NOT_SNIFFED = "X-Content-Type-Options: nosniff\r\n"  # bytes of a model must not become a page


class Answer(web.StreamResponse):
    """200 for a connection of HTTP/1.1 that stays open, as nearly all do.

    aiohttp would build and serialise a table of headers for each, a seventh of the cost of a
    request.

    Args:
        head: All up to the empty line, with the body's length.
        body: What follows.
    """

    _status = 200
    _reason = "OK"

    def __init__(self, head: str, body: bytes) -> None:
        # Not super().__init__: that makes the tables which this does without.
        self._head = head
        self._answer = body

    @property
    def keep_alive(self) -> bool:
        """Yes, that is what it is for."""
        return True

    async def prepare(self, request: web.BaseRequest) -> None:
        """Send it, in one piece, and wait until its client has read enough of what was sent."""
        await request.writer.write(self._head.encode("ascii") + self._answer)
        if request.protocol.writing_paused:
            await request.writer.drain()

    async def write_eof(self, data: bytes = b"") -> None:
        """Nothing is left to send."""


def answer_head(media_type: str) -> str:
    """How all answers of a type begin; only the length, the id and the date vary."""
    more = "" if media_type == "application/json" else _NOT_SNIFFED
    return _HEAD.format(media_type=media_type, more=more)


def filled_head(head: str, body: bytes, request_id: str) -> str:
    """One of `answer_head` with what varies."""
    return head % (len(body), request_id, rfc822_formatted_time())


def stays_open(request: web.BaseRequest) -> bool:
    """Whether an `Answer` is what its client can read."""
    return request.keep_alive is True and request.version == HttpVersion11


def phrase_of(status: int) -> str:
    """What a status is called; nothing if it is nobody's."""
    return HTTPStatus(status).phrase if status in _KNOWN else ""


def has_body(status: int) -> bool:
    """Whether anything follows the head of an answer; its client would take it for the next one."""
    return status not in _WITHOUT_BODY


def is_one_line(text: str) -> bool:
    """Whether a header can be said, and is not two."""
    return not _CONTROL.search(text)


def status_of(sent: bytes) -> int:
    """The status of an answer as it goes over a connection."""
    return int(sent[9:12])


def as_sent(status: int, headers: Mapping[str, str], body: bytes, *, closes: bool = False) -> bytes:
    """An answer as it goes over a connection of HTTP/1.1.

    Args:
        status: Of HTTP.
        headers: All but the body's length and those of the connection.
        body: What follows, if a body may follow that status.
        closes: Whether the connection ends with it.

    Raises:
        ValueError: A header has a line break, which would make two of it.
    """
    lines = [f"HTTP/1.1 {status} {phrase_of(status)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if has_body(status):
        lines.append(f"Content-Length: {len(body)}")
    else:
        body = b""
    if "Date" not in headers:
        lines.append(f"Date: {rfc822_formatted_time()}")
    if closes:
        lines.append("Connection: close")
    for line in lines:
        if not is_one_line(line):
            raise ValueError(f"expected a header in one line, got {line!r}")
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape") + body
