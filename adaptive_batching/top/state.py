"""What was told so far, joined: all that is known, then what is new."""

from collections import Counter
from collections.abc import Sequence

from adaptive_batching.instrumentation.live import EndpointView, Second, View

_NOW = 10  # seconds that "now" is the mean of
_MINUTE = 60


class LastMinute:
    """The last minute of each endpoint, by name.

    Attributes:
        endpoints: As they were told of last; their `seconds` and `ran` are only the newest.
    """

    def __init__(self) -> None:
        self.endpoints: dict[str, EndpointView] = {}
        self._seconds: dict[str, list[Second]] = {}

    def tell(self, view: View, *, whole: bool) -> None:
        """Keep what was told; all that is known takes the place of what was."""
        before = {} if whole else self._seconds
        self.endpoints = {each.name: each for each in view.endpoints}
        self._seconds = {
            each.name: [*before.get(each.name, ()), *each.seconds][-_MINUTE:]
            for each in view.endpoints
        }

    def now(self, name: str) -> Sequence[Second]:
        """The last ten seconds of an endpoint."""
        return self._seconds[name][-_NOW:]

    def reasons(self, name: str) -> dict[str, float]:
        """Why batches left in the last minute: the share of each reason, the largest first."""
        releases: Counter[str] = Counter()
        for second in self._seconds[name]:
            releases.update(second.releases)
        return {reason: count / releases.total() for reason, count in releases.most_common()}
