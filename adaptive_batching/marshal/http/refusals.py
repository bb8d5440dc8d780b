"""How much of a process's time goes into refusing."""

_SHARE = 0.1  # of its time: with half of it refusals still crowded out most of the answers
_LONGEST = 0.05  # seconds; behind a proxy others' requests come on the same connection
_NOTICEABLE = 1e-3  # seconds; a shorter pause is not worth two system calls


class Refusals:
    """Paces those who were refused and ask again at once: each refusal costs as much as to serve.

    Clients are told when it is worth to come again. Those that don't listen would keep a process
    so busy that it gets round to nothing else in time, and refuses ever more: an overload that does
    not end with its cause. So the next request on a connection is read when all refusals up to then
    have had their share of the time.
    """

    __slots__ = ("_booked",)

    def __init__(self) -> None:
        self._booked = 0.0

    def next_look(self, began: float, now: float) -> float | None:
        """When to read on where somebody was refused (monotonic seconds); None for at once.

        Args:
            began: When his request was read.
            now: The present, when he has his answer.
        """
        self._booked = max(self._booked, began) + (now - began) / _SHARE
        pause = min(self._booked - now, _LONGEST)
        return now + pause if pause >= _NOTICEABLE else None
