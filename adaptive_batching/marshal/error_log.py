"""What a client is not told, said in the log under the id that the client was given."""

import asyncio
import logging

from adaptive_batching.marshal.rejections import HANDLER_ERROR, Rejected, status_and_code

_QUIET = 1.0  # seconds in which errors like one that was entered are only counted

_log = logging.getLogger("adaptive_batching.marshal")

_Kind = tuple[str, str, str]  # path, code, exception: a message may be another for every request


class ErrorLog:
    """Enters errors, the first of a kind at once and then how many more a second had.

    A batch's members all fail together, and so does everything while something is broken.
    """

    def __init__(self) -> None:
        self._more: dict[_Kind, int] = {}

    def enter(self, error: Exception, request_id: str, path: str) -> None:
        """Say what happened to a request: a client's own mistakes only to those who debug.

        Args:
            error: What went wrong.
            request_id: What the client was told.
            path: The endpoint, or another one of a few names: not what a client chose.
        """
        status, code = status_and_code(error)
        if status < 500 or isinstance(error, Rejected):
            _log.debug("request %s: %s: %r", request_id, code, error)
            return
        kind = (path, code, type(error).__qualname__)
        if kind in self._more:
            self._more[kind] += 1
            return
        self._more[kind] = 0
        asyncio.get_running_loop().call_later(_QUIET, self._sum_up, kind)
        trace = error if (status, code) == HANDLER_ERROR else None
        _log.warning("request %s: %s: %s: %r", request_id, path, code, error, exc_info=trace)

    def _sum_up(self, kind: _Kind) -> None:
        more = self._more.pop(kind)
        if more:
            _log.warning("%s: %s: %s: %d more like it within a second", *kind, more)
