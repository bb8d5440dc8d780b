"""A request as it comes from a client."""

import re
from math import inf
from time import monotonic
from typing import cast
from urllib.parse import unquote

from aiohttp import web

from adaptive_batching.marshal.http import limits
from adaptive_batching.marshal.http.error_responses import Rejected
from adaptive_batching.marshal.http.headers import Headers, Pairs

_ABSOLUTE = re.compile(r"https?://[^/?]*(.*)", re.ASCII | re.IGNORECASE)
_LARGE = 2**15  # bytes; a copy of more costs more than a piece of its own
WEBSOCKET = "websocket"


class Request:
    """A request: its line and headers, then its body as it arrives.

    Args:
        method: In capitals.
        target: What the request line names, as it came.
        pairs: The headers as they came.
        came: When its bytes came (monotonic seconds).

    Attributes:
        headers: By name in lower case.
        length: Bytes of the body that the head announces; None for a body in chunks.
        pieces: What has arrived of the body.
        size: Bytes of these.
        is_whole: Whether all of the body has arrived.
        keeps_alive: Whether the client lets the connection be used again.
        is_http_1_0: Whether it speaks HTTP/1.0, which has no chunks and no interim answers.
        unread: Seconds for which it lay unread.
        is_prompt: Whether its turn came as it was read, behind no other request.
        asks_for_tunnel: Whether another protocol is to be spoken after it, which may be granted.
        id: Its name in the log and in its answer.
        held: Bytes of the body that count as held in memory.
        is_counted: Whether it counts as in flight.
        max_latency: Seconds from its arrival to its answer; infinite for no bound.
        tenant: The name under which it counts, where tenants are told apart.
        context: What its destination remembers until the answer.
    """

    length: int | None = 0
    size = held = 0
    keeps_alive = True
    is_whole = is_http_1_0 = is_prompt = asks_for_tunnel = is_counted = False
    unread = 0.0
    max_latency = inf
    id = tenant = ""
    context: object = None

    def __init__(self, method: str, target: str, pairs: Pairs, came: float = 0.0) -> None:
        self.method = method
        self.target = target
        self.headers = Headers(pairs)
        self.came = came
        self.pieces: list[bytes | bytearray] = []

    @property
    def body(self) -> bytes:
        """All that has arrived of the body, in one piece."""
        if not self.pieces:
            return b""
        if len(self.pieces) > 1 or isinstance(self.pieces[0], bytearray):
            self.pieces = [b"".join(self.pieces)]
        return cast("bytes", self.pieces[0])

    def take(self, piece: bytes) -> None:
        """Keep more of the body: small pieces together, for each by itself takes room."""
        last = self.pieces[-1] if self.pieces else None
        if isinstance(last, bytearray) and len(piece) < _LARGE:
            last += piece
        elif last is None or len(piece) >= _LARGE:
            self.pieces.append(piece)
        else:
            self.pieces.append(bytearray(piece))

    def waits_for_continue(self) -> bool:
        """Whether the client sends its body only when it is asked to (RFC 9110, 10.1.1)."""
        return not (self.size or self.is_http_1_0) and (
            self.headers.get("expect", "").lower() == "100-continue"
        )


def request_of(request: web.BaseRequest, target: str | None = None) -> Request:
    """The line and headers of a request that aiohttp has read.

    Args:
        request: As aiohttp has it.
        target: What to take for its target; by default, its own.
    """
    target = request.raw_path if target is None else target
    return Request(request.method, target, request.raw_headers, monotonic())


def check_head(request: Request, version: str) -> None:
    """Check that a head means one thing to every reader, and settle how its body is framed.

    llhttp lets through what is refused here.

    Args:
        request: The request.
        version: Of HTTP, such as `1.1`.

    Raises:
        Rejected: It is none that we speak, or its body is in a coding that is not ours to undo, or
            it names no host, or two.
    """
    if version != "1.1":
        request.is_http_1_0 = version == "1.0"
        if not request.is_http_1_0:
            raise Rejected(505, "http_version", closes=True)
    headers = request.headers
    length, coding = headers.get("content-length", "0"), headers.get("transfer-encoding")
    is_framed = len(length) <= limits.LENGTH_DIGITS and length.isascii() and length.isdecimal()
    if coding is not None:
        is_framed = coding.lower() == "chunked" and not request.is_http_1_0
    is_addressed = "host" in headers or request.is_http_1_0
    if len(headers) != len(headers.pairs):  # some are repeated
        is_addressed &= sum(name.lower() == b"host" for name, _ in headers.pairs) <= 1
    if request.method == "CONNECT" or "#" in request.target or not (is_framed and is_addressed):
        raise Rejected(400, "malformed", closes=True)
    request.length = None if coding is not None else int(length)


def asks_for_websocket(request: Request) -> bool:
    """Whether a client asks for a WebSocket, and for nothing else, with a request without a body.

    Only lower case in ASCII counts: some of what is not becomes it in lower case.
    """
    wanted = request.headers.get("upgrade", "")
    return request.length == 0 and wanted.isascii() and wanted.lower() == WEBSOCKET


def origin_form(method: str, target: str) -> str | None:
    """Path and query of a target; the host of an absolute URL chooses nothing (RFC 9112, 3.2.2).

    Returns:
        None if it has none, as `OPTIONS *`, or if a tunnel is asked for, be it to a path.
    """
    if method == "CONNECT":
        return None
    if target.startswith("/"):
        return target
    absolute = _ABSOLUTE.fullmatch(target)
    if absolute is None:
        return None
    within = absolute[1]
    return within if within.startswith("/") else f"/{within}"


def path_of(target: str) -> str:
    """The path of a target as endpoints name it: decoded, without the query."""
    if target.startswith("/") and "%" not in target and "?" not in target:
        return target
    form = origin_form("", target)
    return target if form is None else unquote(form.partition("?")[0])
