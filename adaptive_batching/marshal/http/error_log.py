"""What a client of our own server is not told, said in the log under its request's id."""

from adaptive_batching.instrumentation.failure_log import FailureLog
from adaptive_batching.marshal.http.error_responses import Rejected, refusal
from adaptive_batching.marshal.http.response import Response


class ErrorLog(FailureLog):
    """A log of failures in which a request that can't be served as it came is the client's own."""

    def enter(self, error: Exception, request_id: str, path: str) -> None:
        """Say what happened to a request; see `FailureLog`."""
        if isinstance(error, Rejected):
            self.enter_mistake(error, request_id, path, error.code)
        else:
            super().enter(error, request_id, path)

    def answer(self, error: Exception, request_id: str, path: str) -> Response:
        """Enter an error, and return what its client is told; see `enter`."""
        self.enter(error, request_id, path)
        return refusal(error, request_id)
