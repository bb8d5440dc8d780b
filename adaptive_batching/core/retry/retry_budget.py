"""How many runs may be repeated: a share of those that were wanted, and a few a second."""

from math import inf


class RetryBudget:
    """A token bucket, so that a handler that always fails is not asked many times as often.

    In n seconds at most `saved + share * runs + per_second * n + pays_for * answered` repetitions
    are granted. Share and rate are those of Finagle's RetryBudget; what is saved up is its ten
    seconds of the rate. That answers pay is for the search of a batch for the guilty: of the
    runs of binary splitting a third give answers even if a fifth of 64 items are guilty, and nearly
    half if few are, so that such a search pays for itself, and one that finds none ends.

    Where items don't cost the same, a run counts as so many as the usual batches that take as long.

    Args:
        share: Of the first runs, which may be repeated.
        per_second: Repetitions that are granted anyway, for where little runs.
        saved: Repetitions that may be saved up, and are there at the beginning.
        pays_for: Repetitions that are paid for by one that gave answers: itself and two that did
            not.
    """

    __slots__ = ("_pays_for", "_per_second", "_saved", "_share", "_since", "_tokens")

    def __init__(
        self,
        share: float = 0.2,
        per_second: float = 10.0,
        saved: float = 100.0,
        pays_for: float = 3.0,
    ) -> None:
        self._pays_for = pays_for
        self._share = share
        self._per_second = per_second
        self._saved = saved
        self._tokens = saved
        self._since = -inf  # when the tokens of the rate were last counted

    def __repr__(self) -> str:
        return f"<RetryBudget {self._tokens:.1f} of {self._saved:.0f}>"

    def earn(self, runs: float = 1.0) -> None:
        """Something ran for the first time."""
        self._tokens = min(self._saved, self._tokens + self._share * runs)

    def answered(self, repetitions: float = 1.0) -> None:
        """A repetition gave answers, so it was worth it."""
        self._tokens = min(self._saved, self._tokens + self._pays_for * repetitions)

    def spend(self, repetitions: float, now: float) -> bool:
        """Whether so many repetitions are granted, all of them or none."""
        if now > self._since:
            earned = (now - self._since) * self._per_second
            self._tokens = min(self._saved, self._tokens + earned)
            self._since = now
        if repetitions > self._tokens:
            return False
        self._tokens -= repetitions
        return True
