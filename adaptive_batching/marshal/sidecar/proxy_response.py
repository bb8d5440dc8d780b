"""An answer that is passed on: its headers are the server's, in its order, and no others."""

from typing import Any

from aiohttp import HttpVersion10, HttpVersion11, hdrs, web
from aiohttp.helpers import must_be_empty_body, rfc822_formatted_time
from multidict import CIMultiDict

from adaptive_batching.marshal.http.answer import has_body, phrase_of
from adaptive_batching.marshal.http.header_text import head_bytes


class PassedAnswer(web.StreamResponse):
    """What a server said, without what aiohttp would add: `Server`, or a type that it did not name.

    Args:
        status: Of HTTP.
        reason: As the server worded it.
        headers: The server's, without those that are about its connection.
    """

    def __init__(self, status: int, reason: str, headers: CIMultiDict[str]) -> None:
        super().__init__(status=status, reason=reason)
        self._passed = headers
        self._closes = False

    @property
    def keep_alive(self) -> bool | None:
        """Whether the connection can be used after it; known once its head is sent."""
        return not self._closes

    def force_close(self) -> None:
        """End the connection with it."""
        self._closes = True

    async def prepare(self, request: web.BaseRequest) -> Any:
        """Send the head at once: what follows may be long in coming."""
        if self._eof_sent or self._payload_writer is not None:
            return
        headers, version = self._passed, request.version
        writer: Any = request.writer
        self._req, self._payload_writer = request, writer
        self._closes |= not request.keep_alive
        if not must_be_empty_body(request.method, self.status):
            if hdrs.CONTENT_LENGTH in headers:
                writer.length = int(headers[hdrs.CONTENT_LENGTH])
            elif version == HttpVersion11:
                writer.enable_chunking()
                headers[hdrs.TRANSFER_ENCODING] = "chunked"
            else:
                self._closes = True  # that it ends is all that HTTP/1.0 can say of where it ends
        if self._closes:
            headers[hdrs.CONNECTION] = "close"
        elif version == HttpVersion10:
            headers[hdrs.CONNECTION] = "keep-alive"
        headers.setdefault(hdrs.DATE, rfc822_formatted_time())
        line = f"HTTP/{version.major}.{version.minor} {self.status} {self.reason}"
        await writer.write_headers(line, headers)
        if (as_they_came := head_bytes(line, headers)) is not None:
            writer._headers_buf = as_they_came  # noqa: SLF001  what it has just written down
        writer.send_headers()


class WholeAnswer(PassedAnswer):
    """One whose body is here already.

    Args:
        status: Of HTTP.
        headers: All but the body's length.
        body: That follows, if a body may follow that status.
    """

    def __init__(self, status: int, headers: CIMultiDict[str], body: bytes) -> None:
        self._body_here = body if has_body(status) else b""
        if has_body(status):
            headers[hdrs.CONTENT_LENGTH] = str(len(body))
        super().__init__(status, phrase_of(status), headers)

    async def write_eof(self, data: bytes = b"") -> None:
        """Send the body."""
        await super().write_eof(self._body_here)
