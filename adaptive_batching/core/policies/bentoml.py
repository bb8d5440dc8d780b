"""CORK as BentoML ships it, with its faults: the baseline that `cork` is measured against."""

from collections import deque
from math import inf
from typing import NamedTuple

from adaptive_batching.core.job import Job, Outcome, Reason
from adaptive_batching.core.policy import Decision, Dispatch, Hold, Shed, ShedReason, Situation
from adaptive_batching.core.records import BatchRecord
from adaptive_batching.units import parse_duration

_TICK = 1e-3  # seconds
_KEPT = 50  # batches
_SKIPPED = 2  # batches at the start
_REFRESH = 5.0  # seconds: a token bucket of one token, full at the start
_DECAY = 0.95
_LEAST_SLOPE = 1e-6  # seconds a request
_WINDOW_SHARE = 0.95  # of max_latency: the longest that training waits


class _Phase(NamedTuple):
    """One step of the training at the start."""

    batches: int
    requests: int
    """Waits for so many requests, though never longer than its patience."""


_TRAINING = (_Phase(8, 1), _Phase(1, 1), _Phase(1, 2), _Phase(1, 3))


class BentoML:
    """The dispatcher of BentoML at 32230a52: marshal/dispatcher.py, polled every millisecond.

    Each tick, for n requests waiting: cancel the oldest while its age + predicted(n) >=
    max_latency; sleep while all workers are busy; sleep while n < max_batch_size and n * (age of
    the newest + tick + per_request) <= 0.95 * wait; else release. `wait` is the mean wait of the
    oldest in the last 50 batches, those waits included that this rule caused; predicted(n) is least
    squares over the same batches, refreshed every 5 s at most. The first 11 batches train it.

    Known faults, all on purpose: after lone requests the slope is half of their duration, and a
    burst is refused on an idle worker; n is the whole queue though only max_batch_size leave; the
    deadline cancels but never releases, so a wrong fit can refuse everything for ever; `wait`
    feeds itself; a worker that is free waits for the tick; it knows nothing of several workers.

    Not BentoML's: an expired job leaves at its deadline, always (the scheduler's rule); a request
    of several items is not split; all batch keys share one controller.

    Args:
        tick: Seconds between two looks; 0 to look at every event instead.
    """

    def __init__(self, tick: float = _TICK) -> None:
        if not tick >= 0:
            msg = f"bentoml: expected a tick of 0 s or more, got {tick}"
            raise ValueError(msg)
        self.tick = tick
        self.optimizer = Optimizer()
        """The fit and the mean wait."""
        self._looked = -inf
        self._phase = 0
        self._released = 0  # in this phase
        self._patience = 0.0  # of this phase
        self._trained_until = inf

    @classmethod
    def parse(cls, text: str) -> "BentoML":
        """Read the tick.

        Raises:
            ValueError: It is neither 0 nor a duration.
        """
        return cls(0.0 if text == "0" else parse_duration(text))

    def decide(self, situation: Situation) -> Decision:
        """Look at the queue, if the time has come."""
        now = situation.now
        slept = situation.oldest.arrived <= self._looked < now
        if slept and now < self._looked + self.tick:
            return Hold(self._looked + self.tick)
        if self._looked == -inf:
            self.optimizer.assume(situation.limits.max_latency)
        self._looked = now  # a look that finds nothing ends in a sleep until something arrives
        if self._phase < len(_TRAINING):
            return self._train(situation)
        late = self._late(situation)
        if late:
            return Shed(late, ShedReason.HOPELESS)
        if not situation.idle:
            return self._sleep(situation, inf)
        corked_until = self._corked_until(situation)
        if now < corked_until:
            return self._sleep(situation, corked_until)
        return _everything(situation, Reason.NOT_WORTH_WAITING)

    def watch(self, situation: Situation) -> Decision:
        """Look at the queue while every worker is busy: the oldest may have to go."""
        return self.decide(situation)

    def observe(self, batch: BatchRecord) -> None:
        """Learn from a batch that was answered."""
        if batch.outcome is Outcome.DONE:
            trained = batch.released <= self._trained_until
            waited = 0.0 if trained else batch.released - batch.oldest_arrived
            self.optimizer.learn(batch, waited)

    def _train(self, situation: Situation) -> Decision:
        """Release single requests, then wait a little for two and for three."""
        phase = _TRAINING[self._phase]
        wanted = min(phase.requests, situation.limits.max_batch_size)
        if situation.requests < wanted:
            until = situation.oldest.arrived + self._patience - self.optimizer.predict(wanted)
            if situation.now < until:
                return self._sleep(situation, until)
        if not situation.idle:
            return self._sleep(situation, inf)
        self._released += 1
        if self._released == phase.batches:
            self._next_phase(situation)
        return _everything(
            situation, Reason.PREFERRED if situation.requests >= wanted else Reason.TIMEOUT
        )

    def _next_phase(self, situation: Situation) -> None:
        """Begin with the fit before the batch just released is known: a race of the original."""
        if self._phase > 0:
            self.optimizer.refresh()
        self._phase += 1
        self._released = 0
        if self._phase == len(_TRAINING):
            self._trained_until = situation.now
            return
        limits = situation.limits
        wanted = min(_TRAINING[self._phase].requests, limits.max_batch_size)
        longest = _WINDOW_SHARE * limits.max_latency
        self._patience = min(longest, self.optimizer.predict(2 * wanted + 1))

    def _late(self, situation: Situation) -> list[Job]:
        """The first to expire, as long as the whole queue behind looks too long for each."""
        waiting = situation.requests
        late: list[Job] = []
        for job in situation.jobs.by_deadline():
            if waiting < 2 or situation.now < job.deadline - self.optimizer.predict(waiting):
                break
            late.append(job)
            waiting -= 1
        return late

    def _corked_until(self, situation: Situation) -> float:
        """When n * (age of the newest + tick + per_request) passes 0.95 * wait."""
        if situation.requests >= situation.limits.max_batch_size:
            return -inf
        patience = _DECAY * self.optimizer.wait / situation.requests
        return situation.newest.arrived + patience - self.tick - self.optimizer.per_request

    def _sleep(self, situation: Situation, until: float) -> Hold:
        """Until the next tick; without ticks until the answer changes."""
        if self.tick:
            return Hold(situation.now + self.tick)
        if self._phase == len(_TRAINING) and situation.requests > 1:
            took = self.optimizer.predict(situation.requests)
            until = min(until, situation.soonest.deadline - took)
        return Hold(until)


class Optimizer:
    """What it knows of the batches: duration = fixed + per_request * requests, and their wait."""

    def __init__(self) -> None:
        self.per_request = 0.0
        """Seconds (`o_a`)."""
        self.fixed = 0.0
        """Seconds (`o_b`)."""
        self.wait = 0.0
        """Seconds, of the oldest in each batch, on average."""
        self._batches: deque[tuple[int, float, float]] = deque(maxlen=_KEPT)
        self._seen = 0
        self._refreshed = -inf

    def __repr__(self) -> str:
        line = f"{self.fixed * 1e3:.3g} ms + {self.per_request * 1e3:.3g} ms * requests"
        return f"<Optimizer {line} wait={self.wait * 1e3:.3g} ms>"

    def assume(self, max_latency: float) -> None:
        """Guess, before the first batch."""
        self.per_request = min(2.0, max_latency * 2 / 30)
        self.fixed = min(1.0, max_latency / 30)

    def predict(self, requests: int) -> float:
        """Expected seconds for a batch."""
        return self.fixed + self.per_request * requests

    def learn(self, batch: BatchRecord, waited: float) -> None:
        """Keep a batch, and fit if the last time is long enough ago."""
        self._seen += 1
        if self._seen <= _SKIPPED:
            return
        self._batches.append((batch.requests, batch.duration, waited))
        if batch.finished - self._refreshed >= _REFRESH:
            self._refreshed = batch.finished
            self.refresh()

    def refresh(self) -> None:
        """Fit; slope and intercept are clamped each for itself."""
        if not self._batches:
            return
        per_request, fixed = least_squares([(size, took) for size, took, _ in self._batches])
        self.per_request = max(_LEAST_SLOPE, per_request)
        self.fixed = max(0.0, fixed)
        self.wait = sum(waited for _, _, waited in self._batches) / len(self._batches)


def least_squares(points: list[tuple[int, float]]) -> tuple[float, float]:
    """Slope and intercept of the line; of all that fit one size alone, those of least norm.

    That is numpy.linalg.lstsq's answer, and the reason why a duration at size 1 is divided evenly
    between slope and intercept.
    """
    mean_size = sum(size for size, _ in points) / len(points)
    mean_duration = sum(duration for _, duration in points) / len(points)
    spread = sum((size - mean_size) ** 2 for size, _ in points)
    if not spread:
        share = mean_duration / (mean_size**2 + 1)
        return mean_size * share, share
    together = sum((size - mean_size) * (took - mean_duration) for size, took in points)
    slope = together / spread
    return slope, mean_duration - slope * mean_size


def _everything(situation: Situation, reason: Reason) -> Dispatch:
    limit = situation.limits.max_batch_size
    return Dispatch(limit, Reason.FULL if situation.items >= limit else reason)
