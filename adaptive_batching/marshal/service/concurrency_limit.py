"""Who is let in before his body is read, whichever server speaks HTTP with him."""

from typing import Any

from multidict import MultiMapping

from adaptive_batching.errors import NoWorkers, Overloaded
from adaptive_batching.marshal.http.error_responses import Rejected
from adaptive_batching.marshal.service.endpoint_runtime import Lane
from adaptive_batching.marshal.service.negotiation import Formats


class Door:
    """Counts the requests that are inside.

    Args:
        max_in_flight: Requests at a time, whose bodies have to fit into memory together.

    Attributes:
        in_flight: Requests that are being answered.
        held_bytes: Of their bodies.
    """

    def __init__(self, max_in_flight: int) -> None:
        self.in_flight = self.held_bytes = 0
        self._max_in_flight = max_in_flight

    def enter(self, size: int = 0) -> None:
        """Count a request, and the bytes of its body."""
        self.in_flight += 1
        self.held_bytes += size

    def leave(self, size: int = 0) -> None:
        """It has its answer, or does not want it any more."""
        self.in_flight -= 1
        self.held_bytes -= size

    def check(self, method: str, headers: MultiMapping[str], lane: Lane) -> Formats:
        """Let a request send its body, in codecs that are settled; it is counted already.

        Raises:
            Rejected: Endpoints take POST, and some codecs only.
            NoWorkers: They are not there yet.
            Overloaded: There are too many requests.
        """
        if method != "POST":
            raise Rejected(405, "method_not_allowed", headers={"Allow": "POST"})
        formats = lane.negotiation.settle(headers)
        if not lane.line.ready:
            raise NoWorkers("the workers are still loading")
        if self.in_flight > self._max_in_flight:
            raise Overloaded(f"{self._max_in_flight} requests are in flight already")
        return formats

    async def answer(self, lane: Lane, item: Any, size: int, within: float) -> bytes:
        """Let an item join a batch, and count its bytes meanwhile.

        Args:
            lane: Its way.
            item: A body, with what was settled.
            size: Its bytes.
            within: Seconds until its answer.
        """
        self.held_bytes += size
        try:
            return await lane.answer(item, within)
        finally:
            self.held_bytes -= size
