"""What requests say before their bodies: most clients say the same each time.

A parser makes the same of the same bytes, so those that came before need not be parsed again. That
is a seventh of what a request on the fast path costs.
"""

from aiohttp.http import RawRequestMessage

_END = b"\r\n\r\n"
_LONGEST = 2048  # bytes of a head that is kept
_MOST = 256  # heads that are kept, in some MiB with what was made of them


class KnownHeads:
    """Lines and headers that came before, byte for byte, with bodies of the same length."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[RawRequestMessage, int]] = {}

    def learn(self, data: bytes, message: RawRequestMessage, body: bytes) -> bool:
        """Whether some bytes are one request and nothing else, which is known from now on then.

        Args:
            data: What a parser that was between two requests was fed with.
            message: What it made of that.
            body: All of the request's.
        """
        end = data.find(_END) + len(_END)
        if end + len(body) != len(data):  # so it was in chunks, or its head ends otherwise
            return False
        if end <= _LONGEST:
            if len(self._known) >= _MOST:  # heads that are new each time push out all others
                self._known.clear()
            self._known[data[:end]] = message, len(body)
        return True

    def recall(self, data: bytes) -> tuple[RawRequestMessage, bytes] | None:
        """What a parser that is between two requests would make of some bytes, and the body.

        Returns:
            None if that is not known.
        """
        end = data.find(_END) + len(_END)
        known = self._known.get(data[:end])
        if known is None or end + known[1] != len(data):
            return None
        return known[0], data[end:]
