"""What it takes to decide: counted in calls, not in seconds, which other programs lengthen."""

import sys
from random import Random
from statistics import fmean
from types import FrameType
from typing import Any

import pytest

from adaptive_batching.core import (
    Batch,
    Hold,
    Job,
    Limits,
    Outcome,
    Scheduler,
    Shed,
    make_policy,
)


class _Calls:
    """Counts the calls of the package's own functions in each step of a scheduler."""

    def __init__(self) -> None:
        self.of_kind: dict[type, list[int]] = {Batch: [], Hold: []}
        self._calls = 0

    def next(self, scheduler: Scheduler, now: float) -> Batch | Shed | Hold:
        """Let it decide."""
        self._calls = 0
        sys.setprofile(self._seen)
        try:
            step = scheduler.next(now)
        finally:
            sys.setprofile(None)
        self.of_kind[type(step)].append(self._calls)
        return step

    def _seen(self, frame: FrameType, event: str, _: Any) -> None:
        self._calls += event == "call" and "adaptive_batching/core" in frame.f_code.co_filename


@pytest.mark.no_cover
@pytest.mark.parametrize(("workers", "promise"), [(1, 0.1), (4, 25e-3)])
def test_a_decision_asks_each_thing_once(workers: int, promise: float) -> None:
    """From `next` to the hold at most thirty calls, to the batch that leaves five more."""
    scheduler = Scheduler(make_policy("cork"), Limits(64, promise), workers)
    random, calls, now = Random(1), _Calls(), 0.0
    running: list[tuple[float, Batch]] = []
    for number in range(3_000):
        now += random.expovariate(3_000 * workers)
        while running and running[0][0] <= now:
            ended, batch = running.pop(0)
            scheduler.finish(batch, Outcome.DONE, ended)
        scheduler.submit(Job(now, deadline=now + promise))
        step: object = None
        while scheduler.items and not isinstance(step, Hold):
            if number > 1_500 and scheduler.permits.idle:
                step = calls.next(scheduler, now)
            else:
                step = scheduler.next(now)
            if isinstance(step, Batch):
                running.append((now + 5e-3 + 5e-5 * step.size, step))
                running.sort(key=lambda each: each[0])
    assert len(calls.of_kind[Batch]) > 50
    assert fmean(calls.of_kind[Batch]) <= 35
    assert fmean(calls.of_kind[Hold] or [0]) <= 30
