"""Our errors in applications of others: answered as our own server answers them, and logged so."""

from adaptive_batching.errors import BatchingError
from adaptive_batching.instrumentation.failure_log import FailureLog
from adaptive_batching.wire.error_reply import (
    ErrorReply,
    acceptable_id,
    error_reply,
    status_and_code,
)


class ErrorAnswers:
    """Answers the errors of one application, and enters them in its log: one line for a burst."""

    def __init__(self) -> None:
        self._log = FailureLog()

    def reply(self, error: BatchingError, given_id: str | None, path: str) -> ErrorReply:
        """Return what the client is told.

        Args:
            error: What went wrong.
            given_id: The request's own `X-Request-Id`; a new one stands in for a harmful or no one.
            path: The route, for the log.
        """
        name = acceptable_id(given_id)
        self._log.enter(error, name, path)
        return error_reply(error, name, *status_and_code(error))
