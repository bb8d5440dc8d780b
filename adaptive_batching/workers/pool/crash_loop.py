"""Notices when workers die faster than they are worth starting."""

from collections import deque

from adaptive_batching.errors import CrashLoop
from adaptive_batching.units import format_duration

_DEATHS = 5
_WINDOW = 60.0  # seconds; with a backoff of up to 10 s, one worker alone can die so often


class DeathRegister:
    """The latest deaths in one pool between which no batch was answered, planned ones left out."""

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=_DEATHS)
        self._last = ""

    def enter(self, what: str, now: float) -> None:
        """A worker has died, or could not be started; `what` says which and how."""
        self._times.append(now)
        self._last = what

    def forget(self) -> None:
        """A worker has run a batch, if only of examples: so others died over their items."""
        self._times.clear()

    def crash_loop(self, now: float) -> CrashLoop | None:
        """What to tell clients that would send requests here: five such deaths within a minute."""
        if len(self._times) < _DEATHS or now - self._times[0] >= _WINDOW:
            return None
        span = format_duration(self._times[-1] - self._times[0])
        return CrashLoop(f"{_DEATHS} workers died within {span}; the last, {self._last}")
