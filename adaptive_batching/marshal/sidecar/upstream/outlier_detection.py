"""Which of several servers get batches, and how many at a time: one that fails is left alone.

Names and defaults are those of Envoy's outlier detection; but the last one is never ejected.
"""

import enum
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from math import inf, nextafter

_CONSECUTIVE_FAILURES = 5
_BASE_EJECTION_TIME = 30.0  # seconds, times the number of ejections
_MAX_EJECTION_TIME = 300.0  # seconds
_ERROR_MEMORY = 20.0  # answers
_ENOUGH_ANSWERS = 10
_BROKEN = 0.85  # share of answers that are errors, of a server that is ejected for them
_WELL = 0.4  # the same, of another one: what spoils batches spoils them everywhere
_FAULTLESS = 0.1  # the same, of another one beside which ten errors in a row are no accident
_SLOW_START_WINDOW = 10.0  # seconds in which a server that has come back gets all its permits again
_FIRST_PAUSE = 0.1  # seconds; of one that failed or has no time, and doubles with each in a row
_LONGEST_PAUSE = 5.0  # seconds
_LONGEST_RETRY_AFTER = 60.0  # seconds; what a server says is believed up to here
_REMEMBERED = 1024  # batch keys; a client may make up any number of them


class State(enum.Enum):
    """What becomes of a server; the values are metric labels."""

    IN = "in"
    """It gets batches."""
    SLOW_START = "slow_start"
    """It has come back, and gets fewer at a time than it could take."""
    PAUSED = "paused"
    """It has no time, or has failed just now while others have not."""
    EJECTED = "ejected"
    """It failed again and again."""
    PROBED = "probed"
    """It gets one batch; how that ends decides (half-open)."""


_LEFT_ALONE = frozenset({State.PAUSED, State.EJECTED})


@dataclass(slots=True)
class _Standing:
    failures: int = 0  # in a row
    refusals: int = 0  # in a row
    ejections: int = 0
    ejected_until: float = -inf
    ejected: bool = False  # until a probe succeeds
    paused_until: float = -inf
    back_since: float = -inf
    answers: int = 0
    error_share: float = 0.0  # of its answers of late
    errors: int = 0  # in a row
    garbled: int = 0  # batches in a row whose answers could not be shared out
    well: OrderedDict[Hashable, bool] = field(default_factory=OrderedDict)
    """By batch key, whether the last answer to a batch could be."""

    def answered(self, *, error: bool) -> None:
        self.answers += 1
        self.error_share += (error - self.error_share) / min(self.answers, _ERROR_MEMORY)
        self.errors = self.errors + 1 if error else 0

    def pause(self, now: float, times: int) -> None:
        """Leave it alone because it failed, so many times in a row; longer if it asked for that."""
        self.paused_until = max(self.paused_until, now + _pause(times))

    def remember(self, key: Hashable, *, well: bool) -> None:
        self.well[key] = well
        self.well.move_to_end(key)
        if len(self.well) > _REMEMBERED:
            self.well.popitem(last=False)


class OutlierDetection:
    """How some servers have done.

    Args:
        concurrency: Batches at a time that each may have.
    """

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._servers: dict[str, _Standing] = {}
        self.ejections = 0
        """That there ever were; a failed turn among servers that are all ejected is none."""

    def __contains__(self, name: str) -> bool:
        """Whether it is one of them."""
        return name in self._servers

    def admit(self, name: str, since: float = -inf) -> None:
        """A server that nothing is known of; from a time on (seconds) if it begins slowly."""
        self._servers[name] = _Standing(back_since=since)

    def dismiss(self, name: str) -> None:
        """A server is not one of them any more."""
        del self._servers[name]
        if self.none_left:
            _bring_back(list(self._servers.values()))

    @property
    def none_left(self) -> bool:
        """Whether all are ejected: each gets one batch in turn until one answers."""
        return all(each.ejected for each in self._servers.values())

    def ejected_for(self, name: str, now: float) -> float:
        """Seconds until a server that was ejected gets a batch, if no other one needs it sooner."""
        return self._servers[name].ejected_until - now

    def state(self, name: str, now: float) -> State:
        """What becomes of it."""
        server = self._servers[name]
        if server.ejected:
            return State.EJECTED if now < server.ejected_until else State.PROBED
        if now < server.paused_until:
            return State.PAUSED
        return State.SLOW_START if now < server.back_since + _SLOW_START_WINDOW else State.IN

    def permits(self, name: str, now: float) -> int:
        """Batches at a time that it may have now."""
        state = self.state(name, now)
        if state is State.IN:
            return self._concurrency
        if state is State.PROBED:
            return 1
        if state is State.SLOW_START:
            share = (now - self._servers[name].back_since) / _SLOW_START_WINDOW
            return 1 + int(share * self._concurrency)
        return 0

    def next_change(self, now: float) -> float:
        """When some permits change by themselves (seconds); `inf` if they don't."""
        return min((self._change(each, now) for each in self._servers.values()), default=inf)

    # -------------------------------------------------------------------------- what has happened

    def succeeded(self, name: str, now: float) -> bool:
        """It answered, be it that it does not like what it was asked; whether it was ejected."""
        server = self._servers[name]
        was_ejected = server.ejected
        if was_ejected:
            server.ejected = False
            server.back_since = now
        server.failures = server.refusals = 0
        server.answered(error=False)
        return was_ejected

    def erred(self, name: str, now: float) -> None:
        """It answered with an error that may be its own or that of what it was asked.

        It is ejected if nearly all that it answers are errors, and another one's are not; or if it
        was being probed.
        """
        server = self._servers[name]
        server.answered(error=True)
        others = [each for each in self._servers.values() if each is not server]
        broken = now >= server.ejected_until if server.ejected else _is_broken(server, others)
        if broken:
            server.answers = 0
            self._eject(server, others, now)

    def exhausted(self, name: str, now: float, *, alone: bool) -> None:
        """Its memory was too small: for that batch, unless it was alone in it.

        That is an error as any other: nor is a batch answered that was to show whether it is back.
        """
        server = self._servers[name]
        if alone or server.ejected:
            self.erred(name, now)
        else:
            server.failures = server.refusals = 0

    def shared_out(self, name: str, key: Hashable) -> None:
        """Its answer to a batch of that key held one result for each item."""
        server = self._servers[name]
        server.garbled = 0
        server.remember(key, well=True)

    def garbled(self, name: str, key: Hashable, now: float) -> bool:
        """Its answer to a batch of that key could not be shared out.

        Whether another one does better is seen by its next batch: until then this one is left
        alone. Requests that go alone get whatever it says, so that they don't speak for it.

        Returns:
            Whether it is to blame; otherwise the key is, as others do no better, or there is none.
        """
        server = self._servers[name]
        server.remember(key, well=False)
        others = [each for each in self._servers.values() if each is not server]
        serving = [each for each in others if not each.ejected]
        found = {each.well[key] for each in serving if key in each.well}
        if not serving or found == {False}:
            for each in (server, *serving):
                each.garbled = 0
            return False
        if server.ejected and now < server.ejected_until:
            return True
        server.garbled += 1
        if server.ejected or (True in found and server.garbled >= _CONSECUTIVE_FAILURES):
            self._eject(server, others, now)
        else:
            server.pause(now, server.garbled)
        return True

    def failed(self, name: str, now: float) -> None:
        """It could not be reached, hung up, took too long or said that it is broken."""
        server = self._servers[name]
        if server.ejected and now < server.ejected_until:
            return  # a batch that was under way when it was ejected
        server.failures += 1
        others = [each for each in self._servers.values() if each is not server]
        if server.ejected or server.failures >= _CONSECUTIVE_FAILURES:
            self._eject(server, others, now)
        elif any(not each.ejected for each in others):
            server.pause(now, server.failures)

    def refused(self, name: str, now: float, retry_after: float | None = None) -> None:
        """It has no time; it says for how long (seconds), or it does not."""
        server = self._servers[name]
        if self.state(name, now) in _LEFT_ALONE:
            return  # one more of those that it got at the same time
        server.refusals += 1
        wait = _pause(server.refusals) if retry_after is None else retry_after
        server.paused_until = now + min(max(wait, _FIRST_PAUSE), _LONGEST_RETRY_AFTER)
        server.back_since = server.paused_until
        if server.ejected:  # that decides nothing: it is probed once more when it has time
            server.ejected_until = server.paused_until

    # ---------------------------------------------------------------------------------- decisions

    def _eject(self, server: _Standing, others: list[_Standing], now: float) -> None:
        """Let the others have its batches; if there is none, the one out longest is tried."""
        if not others:
            return
        none_left = all(each.ejected for each in others)
        if not (none_left and server.ejected):
            self.ejections += 1
        if none_left:
            _bring_back(others, now)
        else:
            healthy = 0.0 if server.ejected else now - max(server.back_since, 0.0)
            forgiven = int(max(0.0, healthy) // _BASE_EJECTION_TIME)
            server.ejections = max(0, server.ejections - forgiven) + 1
        server.ejected = True
        lasts = _BASE_EJECTION_TIME * max(1, server.ejections)
        server.ejected_until = now + min(lasts, _MAX_EJECTION_TIME)

    def _change(self, server: _Standing, now: float) -> float:
        if server.ejected:
            return server.ejected_until if now < server.ejected_until else inf
        if now < server.paused_until:
            return server.paused_until
        since = now - server.back_since
        if since >= _SLOW_START_WINDOW:
            return inf
        step = _SLOW_START_WINDOW / self._concurrency
        return max(server.back_since + (since // step + 1) * step, nextafter(now, inf))


def _is_broken(server: _Standing, others: list[_Standing]) -> bool:
    """Whether nearly all that it answers are errors, and another one's are not."""
    if server.answers < _ENOUGH_ANSWERS:
        return False
    if server.error_share >= _BROKEN:
        return any(_is_well(each, _WELL) for each in others)
    # One that did well before, and has lost its model: to wait for the share would take 37 batches.
    return server.errors >= _ENOUGH_ANSWERS and any(_is_well(each, _FAULTLESS) for each in others)


def _is_well(server: _Standing, most_errors: float) -> bool:
    enough = server.answers >= _ENOUGH_ANSWERS and server.error_share <= most_errors
    return enough and not server.ejected


def _bring_back(ejected: list[_Standing], now: float = -inf) -> None:
    """Probe the server out longest, unless one is being probed: one has to be asked."""
    if ejected and not any(each.ejected_until <= now for each in ejected):
        min(ejected, key=lambda each: each.ejected_until).ejected_until = now


def _pause(times: int) -> float:
    """Seconds, for the so-manieth time in a row."""
    return float(min(_FIRST_PAUSE * 2.0 ** (min(times, 10) - 1), _LONGEST_PAUSE))
