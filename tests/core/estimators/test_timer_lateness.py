"""How late wake-ups come is learned, so that nobody allows for a lateness that never is."""

from adaptive_batching.core import Batch, Hold, Job, Limits, Outcome, Scheduler, make_policy
from adaptive_batching.core.estimators.delays import TimerLateness


def after(lateness: list[float]) -> TimerLateness:
    """Wake-ups that came so much late."""
    timer_lateness = TimerLateness()
    for number, late in enumerate(lateness):
        timer_lateness.due = float(number)
        timer_lateness.woke(number + late)
    return timer_lateness


def test_before_the_first_wake_up() -> None:
    """A millisecond, to which asyncio rounds."""
    assert TimerLateness().late == 1e-3


def test_perfect_timers_are_trusted() -> None:
    """Of the first guess nothing is left."""
    assert after([0.0] * 200).late < 1e-5


def test_nearly_all_wake_ups_are_within_it() -> None:
    """Of timers that are up to a millisecond late, evenly spread, it covers most."""
    spread = [(7 * number % 20) / 20 * 1e-3 for number in range(400)]
    assert 0.8e-3 < after(spread).late < 1.2e-3


def test_timers_are_as_fine_as_they_were_measured() -> None:
    """Threads wake within 0.1 ms, asyncio rounds to a millisecond; being busy is no coarseness."""
    assert after([6e-5] * 200).resolution < 4e-5
    spread = [(7 * number % 20) / 20 * 1e-3 for number in range(400)]
    assert 0.4e-3 < after(spread).resolution <= 0.5e-3
    assert after([20e-3] * 50).resolution == 0.5e-3


def test_the_scheduler_learns_it_from_its_own_holds() -> None:
    """Asked again after the instant that it named, it notes by how much; before it, nothing."""
    scheduler = Scheduler(make_policy("window:10ms"), Limits(8))
    for round_trip in range(100):
        begin = float(round_trip)
        scheduler.submit(Job(begin))
        hold = scheduler.next(begin)
        assert isinstance(hold, Hold)
        assert scheduler.next(begin + 5e-3) == hold  # somebody asked early
        batch = scheduler.next(hold.until + 3e-3)
        assert isinstance(batch, Batch)
        scheduler.finish(batch, Outcome.DONE, hold.until + 4e-3)
    (view,) = scheduler._queues.views.values()
    assert 2.5e-3 < view.situation(1e3).timers_late < 3.5e-3
