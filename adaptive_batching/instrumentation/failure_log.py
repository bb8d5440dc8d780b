"""What a client is not told, said in the log under the id that the client was given."""

import logging

from adaptive_batching.errors import BatchingError, BatchKeyError, CostError
from adaptive_batching.exception_text import exc_info, printable, qualname_of
from adaptive_batching.instrumentation.log_rate_limit import LogRateLimit
from adaptive_batching.units import format_duration
from adaptive_batching.wire.error_reply import HANDLER_ERROR, ItemFailed, status_and_code

_log = logging.getLogger("adaptive_batching.marshal")

_OF_FUNCTIONS = (CostError, BatchKeyError)  # of the program; their causes are what these raised
_Kind = tuple[
    str, str, str
]  # path, code, exception or its cause: messages differ from request to request


class FailureLog:
    """Enters errors: the first of a burst at once, and at its end how many more there were.

    A batch's members all fail together, and so does everything while something is broken, or too
    much comes in.
    """

    def __init__(self) -> None:
        self._bursts = LogRateLimit(_sum_up)

    def enter(self, error: Exception, request_id: str, path: str) -> None:
        """Log what happened to a request: a client's own mistakes only at level debug.

        Args:
            error: What went wrong.
            request_id: What the client was told.
            path: The endpoint, or another one of a few names: not what a client chose.
        """
        if isinstance(error, ItemFailed):
            error = error.error
        status, code = status_and_code(error)
        if status < 500:
            self.enter_mistake(error, request_id, path, code)
            return
        cause = error.__cause__ if isinstance(error, BatchingError) else None
        kind = (path, code, qualname_of(type(error if cause is None else cause)))
        if not self._bursts.begins(kind):
            return
        parts = exc_info(error)
        raised = isinstance(error, _OF_FUNCTIONS) and cause is not None
        trace = parts if raised or (status, code) == HANDLER_ERROR else None
        about = {"request_id": request_id, "endpoint": path, "code": code}
        line = "request %s: %s: %s: %r"
        _log.warning(line, request_id, path, code, parts[1], exc_info=trace, extra=about)

    def flush(self) -> None:
        """Log how many more errors there were, without waiting for the end of a burst."""
        self._bursts.flush()

    def enter_mistake(self, error: Exception, request_id: str, path: str, code: str) -> None:
        """Log at level debug what a client did wrong."""
        if _log.isEnabledFor(logging.DEBUG):
            about = {"request_id": request_id, "endpoint": path, "code": code}
            _log.debug("request %s: %s: %r", request_id, code, printable(error), extra=about)


def _sum_up(kind: _Kind, more: int, seconds: float) -> None:
    path, code, name = kind
    within = format_duration(seconds)
    about = {"endpoint": path, "code": code, "count": more}
    _log.warning(
        "%s: %s: %s: %d more like it within %s", path, code, name, more, within, extra=about
    )
