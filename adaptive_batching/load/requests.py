"""The bytes of requests, each with a head of its own as in real traffic."""

from collections.abc import Iterable, Mapping
from random import Random
from urllib.parse import urlsplit

_NAMES = b"X-Request-Id: %032x\r\ntraceparent: 00-%032x-%016x-01\r\n"


class Requests:
    """Requests that post these bodies.

    Args:
        url: Where they are posted.
        bodies: By number.
        headers: Of every request, beside an `X-Request-Id` and a `traceparent`.
        repeated: Whether these two are the same in every request.
    """

    def __init__(
        self,
        url: str,
        bodies: Iterable[bytes],
        headers: Mapping[str, str],
        *,
        repeated: bool = False,
    ) -> None:
        parts = urlsplit(url)
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"Host: {parts.netloc}\r\n{lines}Content-Length: "
        self._line = f"POST {parts.path or '/'} HTTP/1.1\r\n".encode()
        self._rest = [b"%b%d\r\n\r\n%b" % (head.encode(), len(body), body) for body in bodies]
        self._bits = Random(0).getrandbits  # noqa: S311  not a secret
        self._names = self._new_names() if repeated else None

    def post(self, number: int) -> bytes:
        """Return a request with the body of this number."""
        return self._line + (self._names or self._new_names()) + self._rest[number]

    def _new_names(self) -> bytes:
        bits = self._bits
        return _NAMES % (bits(128), bits(128), bits(64))
