"""How much of a clump is still to come: callers that fan one request out into several."""

from collections.abc import Sequence
from math import inf, log

from adaptive_batching.core.estimators.evidence import MEMORY

_POSITIONS = 1024  # in a clump; those beyond are like the last


class FanOut:
    """Whether the nth of a clump is followed by another, and how soon; O(1) per arrival.

    A clump ends where a silence is longer than its gaps may be. A gap's length alone can't tell the
    end of a clump from a pause in it; how many have come can, as callers fan out into a like number
    of requests again and again.
    """

    __slots__ = (
        "_all", "_all_ended", "_ended", "_followed", "_gap", "_gaps", "_longest", "_position",
    )  # fmt: skip

    def __init__(self) -> None:
        self._followed = [0.0]  # how often another came soon after the nth
        self._ended = [1.0]  # one is assumed before any was seen
        self._all = self._all_ended = 1.0  # both of them summed, and the second alone
        self._gap = 0.0  # mean within clumps (seconds)
        self._gaps = 0.0  # seen
        self._longest = 0.0  # seconds; silences beyond it part clumps
        self._position = 0

    def __repr__(self) -> str:
        return f"<FanOut position={self._position} gap={self._gap:.3g} s>"

    def learn(self, gaps: Sequence[float], longest: float) -> None:
        """Learn from silences between arrivals (seconds), in turn; longer ones part clumps."""
        position, mean = self._position, self._gap
        followed, ended = self._followed, self._ended
        seen = self._gaps
        self._all += len(gaps)
        for gap in gaps:
            counts = followed if gap <= longest else ended
            counts[position] = count = counts[position] + 1.0
            if count > MEMORY:
                followed[position] /= 2
                ended[position] /= 2
                self._all -= followed[position] + ended[position]
                self._all_ended -= ended[position]
            if gap > longest:
                self._all_ended += 1.0
                position = 0
                continue
            if seen < MEMORY:
                seen += 1.0
            mean += (gap - mean) / seen
            if position < _POSITIONS - 1:
                position += 1
                if position == len(followed):
                    followed.append(0.0)
                    ended.append(0.0)
        self._gaps = seen
        self._longest = longest
        self._position, self._gap = position, mean

    def recognised(self, rate: float) -> bool:
        """Whether arrivals follow each other in clumps sooner than at a rate (a second).

        Silences that were too long count up to where they parted clumps: so independent arrivals
        show the rate that they have.
        """
        ended = self._all_ended / self._all
        return 1.0 - ended > rate * ((1.0 - ended) * self._gap + ended * self._longest)

    def outgrows(self, others: float) -> bool:
        """Whether more than so many are still expected in this clump, to half an arrival."""
        usual = self._all_ended / self._all
        expected, chance = 0.0, 1.0
        for position in range(self._position, len(self._followed)):
            followed = self._followed[position] + 1.0 - usual
            chance *= followed / (followed + self._ended[position] + usual)
            expected += chance
            if expected > others + 0.5:
                return True
        return False

    def worth(self, cost: float, gain: float, timer: float) -> float:
        """How long a silence is worth while waiting for another of this clump (seconds).

        Args:
            cost: Of waiting, a second.
            gain: When another comes.
            timer: Seconds that are waited at least, if no other comes.

        The longer the silence, the likelier that the clump is over: its gaps are taken to be
        exponential, and Bayes' rule gives the hazard, which is compared with `cost / gain`. What
        is known of all positions counts as one clump more that came so far: of a burst that
        outgrows all before it, nothing else is known.
        """
        usual = self._all_ended / self._all
        followed = self._followed[self._position] + 1.0 - usual
        share = cost * self._gap / gain if gain > 0 else inf
        if not (followed > 0 and share < 1):
            return 0.0
        odds = followed / (self._ended[self._position] + usual)
        if odds * gain <= cost * timer:
            return 0.0
        return self._gap * log(max(1.0, odds * (1 - share) / share)) if share > 0 else inf
