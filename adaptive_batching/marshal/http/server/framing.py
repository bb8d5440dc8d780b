"""Where the requests on a connection begin and end: llhttp says it, by its public callbacks."""

from collections import deque
from typing import TYPE_CHECKING, Protocol

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from adaptive_batching.marshal.http import limits
from adaptive_batching.marshal.http.error_responses import Rejected
from adaptive_batching.marshal.http.headers import text_of
from adaptive_batching.marshal.http.request import Request, asks_for_websocket, check_head
from adaptive_batching.marshal.http.response import Response
from adaptive_batching.marshal.http.server.passed import head_written_anew

if TYPE_CHECKING:
    from adaptive_batching.marshal.http.server.server import Server


class Body(Protocol):
    """Takes the rest of a body that is arriving, in the place of its request."""

    def feed(self, piece: bytes) -> None:
        """Take some of it."""
        ...

    def feed_end(self) -> None:
        """It has ended."""
        ...


class Framing:
    """Finds the requests in the bytes of one connection.

    Args:
        server: Counts them.

    Attributes:
        waiting: Each for its turn: requests that are whole, and answers to bytes that are none.
        arriving: The request whose head is there and whose body is not.
        body: What takes the rest of that; None while the request itself collects it for its turn.
        ends: Whether no more requests are taken.
        awaits_tunnel: Whether the last request asks for another protocol to be spoken after it.
        behind: Bytes that arrived behind that request.
        read_at: When bytes were read last (monotonic seconds).
        unread: Seconds for which they lay unread.
    """

    def __init__(self, server: "Server") -> None:
        self._server = server
        self._parser = HttpRequestParser(self)
        self._url = b""
        self._pairs: list[tuple[bytes, bytes]] = []
        self._unframed = 0  # bytes since the parser last got on with a message
        self.waiting: deque[Request | Response] = deque()
        self.arriving: Request | None = None
        self.body: Body | None = None
        self.ends = self.awaits_tunnel = False
        self.behind = b""
        self.read_at = self.unread = 0.0

    def feed(self, data: bytes | memoryview) -> Exception | None:
        """Find where requests begin and end in what has been read.

        Returns:
            What is wrong with it, after which no more requests are taken; None if nothing is.
        """
        self._unframed += len(data)
        rest = None
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            rest = data[upgrade.args[0] :]
        except HttpParserError as error:
            if not self.ends:  # what follows `Connection: close` is not looked at
                return self._fault(error.__context__)
        else:
            if self._unframed > limits.HEAD + limits.READ:
                return self._fault(self._too_large())
        # no more in there: an error that it meets has a context of its own
        return None if rest is None else self._meet_upgrade(rest)

    def decline_tunnel(self) -> Exception | None:
        """Take the bytes behind the last request for HTTP, as before; see `feed`."""
        self.awaits_tunnel = False
        behind, self.behind = self.behind, b""
        self._parser = HttpRequestParser(self)
        return self.feed(behind)

    # ------------------------------------------------------------------------ called by the parser

    def on_url(self, url: bytes) -> None:
        """Begin a request, or go on with its target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; trailers, which come after the body, are dropped."""
        if self.arriving is None:
            self._pairs.append((name, value))

    def on_headers_complete(self) -> None:
        """Take the head."""
        if self._unframed > limits.HEAD or len(self._pairs) > limits.HEADERS:
            self._check_size()
        parser, came = self._parser, self.read_at - self.unread
        request = Request(parser.get_method().decode(), text_of(self._url), self._pairs, came)
        self._url, self._pairs = b"", []
        request.unread = self.unread
        request.keeps_alive = parser.should_keep_alive()
        check_head(request, parser.get_http_version())
        self.arriving = request
        self._server.requests_count += 1

    def on_body(self, piece: bytes) -> None:
        """Take some of a body."""
        self._unframed = 0
        assert self.arriving is not None
        self.arriving.size += len(piece)
        if self.body is None:
            self.arriving.take(piece)
        else:
            self.body.feed(piece)

    def on_message_complete(self) -> None:
        """The request is whole."""
        self._unframed = 0
        request, self.arriving = self.arriving, None
        assert request is not None
        request.is_whole = True
        if self.body is None:
            self.waiting.append(request)
        else:
            body, self.body = self.body, None
            body.feed_end()
        self.ends |= not request.keeps_alive

    # --------------------------------------------------------------------- what is no plain request

    def _check_size(self) -> None:
        """See to it that a head is not too large: what has been read may be more than that.

        Raises:
            Rejected: It is.
        """
        size = len(self._url) + sum(len(name) + len(value) for name, value in self._pairs)
        if size > limits.HEAD or len(self._pairs) > limits.HEADERS:
            raise self._too_large()

    def _too_large(self) -> Rejected:
        if len(self._url) > sum(len(name) + len(value) for name, value in self._pairs):
            return Rejected(414, "target_too_long", closes=True)
        return Rejected(431, "headers_too_large", closes=True)

    def _fault(self, error: BaseException | None) -> Exception:
        """Take no more requests.

        Args:
            error: What was wrong with a head; None for bytes that llhttp does not understand.
        """
        self.ends = True
        return error if isinstance(error, Exception) else Rejected(400, "malformed", closes=True)

    def _meet_upgrade(self, rest: bytes | memoryview) -> Exception | None:
        """Another protocol is to be spoken after the last request.

        llhttp skips its body then. Where that is not granted it is as if it had not been asked for
        (RFC 9110, 7.8): the request is framed once more, without the header.
        """
        request = self.waiting[-1]
        assert isinstance(request, Request)
        if self._server.handler.tunnels and asks_for_websocket(request):
            request.asks_for_tunnel = self.awaits_tunnel = True
            self.behind = bytes(rest)
            return None
        self.waiting.pop()
        self.ends = False  # its body may follow
        self._parser = HttpRequestParser(self)
        fault = self.feed(head_written_anew(request, without="upgrade"))
        return fault if self.ends else self.feed(rest)
