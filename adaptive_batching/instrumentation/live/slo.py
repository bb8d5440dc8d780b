"""Whether what was promised was kept: to requests that were let in, and at what price to others."""

import enum
from collections.abc import Sequence

import msgspec

from adaptive_batching.instrumentation.live.second import Second

_MINUTE = 60  # seconds
_FORGIVEN = 1e-3  # share of those let in, or refused: a page that cries at each slip is not heeded


class SloState(enum.Enum):
    """How it went in the last minute."""

    IDLE = "idle"
    """No request came."""
    KEPT = "kept"
    REFUSING = "refusing"
    """Kept to those let in; others were refused."""
    BROKEN = "broken"
    """Some were let in and not answered in time."""
    FAILING = "failing"
    """Handlers or workers failed, more often than answers were late."""


class Slo(msgspec.Struct, frozen=True):
    """The last minute in sums of requests.

    Attributes:
        verdict: How it went.
        arrived: Requests that came.
        in_time: Share of those let in that was answered in time; 1 if none was.
        expired: Requests that were let in and not answered in time.
        failed: Requests whose handler or worker failed.
        refused: Share of all that came.
    """

    verdict: SloState
    arrived: int
    in_time: float
    expired: int
    failed: int
    refused: float

    @classmethod
    def of(cls, seconds: Sequence[Second]) -> "Slo":
        """Judge the last minute of some seconds."""
        minute = seconds[-_MINUTE:]
        arrived = sum(each.arrived for each in minute)
        done = sum(each.done for each in minute)
        expired = sum(each.expired for each in minute)
        failed = sum(each.failed for each in minute)
        turned_away = sum(each.shed + each.queue_full for each in minute)
        let_in = done + expired + failed
        in_time = done / let_in if let_in else 1.0
        refused = min(1.0, turned_away / arrived) if arrived else 0.0
        verdict = _verdict(arrived + let_in, in_time, failed > expired, refused)
        return cls(verdict, arrived, in_time, expired, failed, refused)


def _verdict(came: int, in_time: float, more_failed: bool, refused: float) -> SloState:  # noqa: FBT001
    if in_time < 1 - _FORGIVEN:
        return SloState.FAILING if more_failed else SloState.BROKEN
    if refused > _FORGIVEN:
        return SloState.REFUSING
    return SloState.KEPT if came else SloState.IDLE
