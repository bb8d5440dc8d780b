"""Requests whose answers would be late whatever they bring, and that need not be read for that.

A process that is itself what has too much to do serves nobody in time if it looks at everybody: it
would always be busy with refusals, and with those who came too long ago.
"""

from collections.abc import Mapping
from math import inf
from typing import Any

from adaptive_batching.core import QueueingDelay
from adaptive_batching.dispatcher import Dispatcher
from adaptive_batching.errors import Overloaded
from adaptive_batching.marshal.http.answer import as_sent
from adaptive_batching.marshal.http.deadline import patience
from adaptive_batching.marshal.http.error_log import ErrorLog
from adaptive_batching.marshal.http.request_ids import acceptable_id
from adaptive_batching.units import format_duration


class Unread:
    """Refuses them, at a fraction of what it costs to look at a request.

    Args:
        passage: Knows how long answers are under way.
        errors: Is told.
    """

    def __init__(self, passage: QueueingDelay, errors: ErrorLog) -> None:
        self._passage = passage
        self._errors = errors

    def error(
        self,
        headers: Mapping[str, str],
        max_latency: float,
        unread: float,
        now: float,
        line: Dispatcher[Any, Any] | None,
    ) -> Overloaded | None:
        """Why a request is not worth a look; None if it is.

        Args:
            headers: Of the request.
            max_latency: What was promised (seconds).
            unread: Seconds for which it lay unread.
            now: The present (monotonic seconds).
            line: Where it would wait; None if that can't be said before it is read.
        """
        patient = min(patience(headers), max_latency)
        left = self._passage.left(patient, unread, now)
        if left <= 0:
            return Overloaded(f"it was read {format_duration(unread)} after it came")
        if line is None or left == inf:
            return None
        wait = line.refuse_unseen(left)
        if wait is None:
            return None
        message = f"an answer within {format_duration(left)} is out of reach"
        return Overloaded(message, retry_after=wait)

    def answer(self, error: Overloaded, headers: Mapping[str, str], path: str) -> bytes:
        """All that such a request is told, and a line for the log.

        Args:
            error: Why.
            headers: Of the request.
            path: What is told to the log.
        """
        name = acceptable_id(headers.get("X-Request-Id"))
        return as_sent(*self._errors.answer(error, name, path))
