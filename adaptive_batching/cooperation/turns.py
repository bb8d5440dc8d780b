"""Which thread leads, and which is next. All of it happens under the driver's mutex."""

from collections.abc import Iterable

from adaptive_batching.cooperation.waiter import Waiter


class Turns:
    """The threads that wait for batches, one of which runs them.

    Attributes:
        led: Whether a thread leads.
        holding: The leader, while the policy holds a batch back; rung by each that comes.
        gathering: The leader, while those that have just been answered wake; rung by the last.
        waking: Threads that were rung and have not woken yet.
    """

    __slots__ = ("_followers", "gathering", "holding", "led", "waking")

    def __init__(self) -> None:
        self.led = False
        self.holding: Waiter | None = None
        self.gathering: Waiter | None = None
        self.waking = 0
        self._followers: dict[Waiter, None] = {}  # in the order of their coming

    def follow(self) -> Waiter | None:
        """Wait behind the leader; None if there is none, which makes it you."""
        if not self.led:
            self.led = True
            return None
        waiter = Waiter()
        self._followers[waiter] = None
        return waiter

    def leave(self, waiter: Waiter) -> None:
        """A waiter has woken, rung or not."""
        self._followers.pop(waiter, None)
        if waiter.silent:
            return
        self.waking -= 1
        if not self.waking and self.gathering is not None:
            self.gathering.ring()

    def wake(self, waiters: Iterable[Waiter]) -> None:
        """The answers of these waiters are there."""
        for waiter in waiters:
            self._followers.pop(waiter, None)
            self.waking += waiter.ring()

    def hand_over(self) -> None:
        """Let the thread that has waited longest lead, if one waits."""
        follower = next(iter(self._followers), None)
        self.led = follower is not None
        if follower is not None:
            follower.leads = True
            self.wake([follower])
