"""What a client is not told, said in the log under the id that the client was given."""

import logging
import time

from adaptive_batching.marshal.rejections import HANDLER_ERROR, Rejected, status_and_code

_QUIET = 1.0  # seconds between two lines about the same kind of error

_log = logging.getLogger("adaptive_batching.marshal")


class ErrorLog:
    """Enters errors, each kind at most once a second: a batch's members all fail together."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}

    def enter(self, error: Exception, request_id: str) -> None:
        """Say what happened to a request: a client's own mistakes only to those who debug."""
        status, code = status_and_code(error)
        if status < 500 or isinstance(error, Rejected):
            _log.debug("request %s: %s: %r", request_id, code, error)
            return
        now = time.monotonic()
        if now - self._last.get(code, -_QUIET) < _QUIET:
            return
        self._last[code] = now
        trace = error if (status, code) == HANDLER_ERROR else None
        _log.warning("request %s: %s: %r", request_id, code, error, exc_info=trace)
