"""Stages in series: who can get through, and what each stage may take."""

import pytest

from adaptive_batching.core import Limits, Scheduler, Station, Tandem, make_policy
from adaptive_batching.core.job import Batch, Job, Outcome
from adaptive_batching.core.tandem import earliest_finish, just_missed
from adaptive_batching.errors import Overloaded

IDLE = Station(batch=0.1, free=0.0, full_batch=0.2, limit=4, ahead=0)


def test_an_empty_line_takes_the_sum_of_its_batches() -> None:
    """Nobody is waited for, and each stage leaves the later ones theirs."""
    stations = [IDLE, IDLE._replace(batch=0.3), IDLE]
    assert earliest_finish(stations, 10.0) == pytest.approx(10.5)
    tandem = Tandem()
    assert tandem.admit(stations, 11.0, 10.0)
    latest = [tandem.latest_finish(stage, 11.0) for stage in range(3)]
    assert latest == pytest.approx([10.6, 10.9, 11.0])


def test_a_backlog_clears_while_the_earlier_stages_work() -> None:
    """It delays an item by what is left of it when the item comes, and not at all if that is 0."""
    short = IDLE._replace(free=0.05)
    long = IDLE._replace(free=0.05, ahead=9)  # two full batches leave before
    assert earliest_finish([IDLE, short], 0.0) == pytest.approx(0.2)
    assert earliest_finish([IDLE, long], 0.0) == pytest.approx(0.05 + 2 * 0.2 + 0.1)


def test_who_comes_behind_a_crowd_may_miss_a_batch() -> None:
    """He is let in if he can miss one and be in time; nobody misses one with few ahead of him."""
    few, crowd = IDLE._replace(free=0.05, ahead=3), IDLE._replace(free=0.05, ahead=4)
    assert Tandem().admit([crowd, few], earliest_finish([crowd, few], 0.0), 0.0)
    assert just_missed([crowd, few]) == 0.0  # the entrance's batches are known
    assert just_missed([IDLE, crowd, IDLE]) == 0.1


def test_refused_with_the_time_that_helps() -> None:
    """Who would be late by less than the backlog may come again when he would not be."""
    tandem, stations = Tandem(), [IDLE, IDLE._replace(free=0.3)]
    tandem.let_in(0.0)
    with pytest.raises(Overloaded, match="through 2 stages within 350 ms") as refused:
        tandem.admit(stations, 0.35, 0.0)
    assert refused.value.retry_after == pytest.approx(0.05 * 1.05)
    assert tandem.admit([IDLE, IDLE._replace(free=0.25)], 0.4, 0.05)


def test_an_overdue_batch_is_not_asked_for_all_the_time() -> None:
    """It should have ended a second ago, and an item would be late by 1 ms; that helps no client.

    The batch is expected to take another second; the next test of the predictions comes before.
    """
    scheduler = Scheduler(make_policy("greedy"), Limits(4))
    for number in range(6):
        now = float(number)
        scheduler.submit(Job(now))
        batch = scheduler.next(now)
        assert isinstance(batch, Batch)
        if number < 5:
            scheduler.finish(batch, Outcome.DONE, now + 0.1)
    station = Station.of(scheduler, now + 1.1)
    assert (station.free, station.opens) == (0.0, pytest.approx(1.0, rel=0.01))
    tandem, patience = Tandem(), station.batch + IDLE.batch - 1e-3
    tandem.let_in(now + 1.1)
    with pytest.raises(Overloaded) as refused:
        tandem.admit([station, IDLE], now + 1.1 + patience, now + 1.1)
    assert refused.value.retry_after == pytest.approx(1.05 * patience)


def test_once_in_a_while_one_is_let_in_all_the_same() -> None:
    """No later than after the time that one is ready to wait."""
    tandem = Tandem()
    assert tandem.admit([IDLE], 1.0, 0.0)
    with pytest.raises(Overloaded):
        tandem.admit([IDLE], 0.04 + 0.05, 0.04)
    assert not tandem.admit([IDLE], 0.05 + 0.05, 0.05)
    with pytest.raises(Overloaded):
        tandem.admit([IDLE], 0.06 + 0.05, 0.06)


def test_what_a_scheduler_knows_of_its_stage() -> None:
    """Nothing until five batches have ended; then its batches, its backlog, and who is busy."""
    scheduler = Scheduler(make_policy("greedy"), Limits(4), workers=2)

    def release(now: float) -> Batch:
        step = scheduler.next(now)
        assert isinstance(step, Batch)
        return step

    for number in range(5):
        assert Station.of(scheduler, float(number)) == Station()
        scheduler.submit(Job(float(number)))
        scheduler.finish(release(float(number)), Outcome.DONE, number + 0.1)
    assert Station.of(scheduler, 5.0).wait == 0.0
    for _ in range(3):
        scheduler.submit(Job(5.0))
    release(5.0)
    scheduler.submit(Job(5.0))
    release(5.0)
    for _ in range(6):
        scheduler.submit(Job(5.0))
    station = Station.of(scheduler, 5.05)
    assert station.batch == pytest.approx(0.1, rel=0.1)
    assert station.free == pytest.approx(0.05, rel=0.2)
    assert station.ahead == 6
    assert station.wait == pytest.approx(station.free)  # the other worker takes the full batch
    assert Station.of(scheduler, 5.05, upstream=2).wait == pytest.approx(
        station.free + station.full_batch
    )


def test_who_is_alone_is_not_taken_for_a_crowd() -> None:
    """His batches are his own; where others are, they are as large as those of late."""
    scheduler = Scheduler(make_policy("greedy"), Limits(8))
    now = 0.0
    for size in [1, 8] * 5:
        for _ in range(size):
            scheduler.submit(Job(now))
        step = scheduler.next(now)
        assert isinstance(step, Batch)
        now += 0.01 * size
        scheduler.finish(step, Outcome.DONE, now)
    assert Station.of(scheduler, now).batch == pytest.approx(0.01, rel=0.2)
    assert Station.of(scheduler, now, upstream=1).batch == pytest.approx(0.08, rel=0.2)
