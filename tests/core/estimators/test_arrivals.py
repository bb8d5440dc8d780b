"""The three views of a stream of arrivals."""

import random
from itertools import cycle
from math import inf

import pytest

from adaptive_batching.core.estimators.arrivals import ArrivalRate


def fed(times: list[float], window: float = 1.0, single: float = 5e-3) -> ArrivalRate:
    arrivals = ArrivalRate()
    for time in times:
        arrivals.arrived(time)
        arrivals.digest(time, window, single)
    return arrivals


def poisson(rate: float, count: int, seed: int = 1) -> list[float]:
    rng = random.Random(seed)
    now = 0.0
    times = []
    for _ in range(count):
        now += rng.expovariate(rate)
        times.append(now)
    return times


def test_the_rate_is_counted_over_the_window() -> None:
    """A thousand arrivals a second are counted as such."""
    times = poisson(1000, 5000)
    assert fed(times).rate(times[-1], 1.0) == pytest.approx(1000, rel=0.1)


def test_the_items_of_an_arrival_are_counted_over_the_same_window() -> None:
    """Single items for long, then three items an arrival: three after a few windows."""
    arrivals = fed(poisson(1000, 1000))
    assert arrivals.mean_size == 1.0
    now = arrivals.newest
    for step in range(4000):
        arrivals.arrived(now + step * 1e-3)
        arrivals.more_items += 2
        arrivals.digest(now + step * 1e-3, 1.0, 5e-3)
    assert arrivals.mean_size == pytest.approx(3.0, rel=0.05)


def test_refused_jobs_are_offered_and_do_not_arrive() -> None:
    """Three are refused for each that is let in: four times as many came."""
    arrivals = ArrivalRate()
    for time in poisson(1000, 5000):
        arrivals.arrived(time)
        for _ in range(3):
            arrivals.refused(time)
        arrivals.digest(time, 1.0, 5e-3)
    assert arrivals.rate(arrivals.newest, 1.0) == pytest.approx(1000, rel=0.1)
    assert arrivals.offered_ratio == pytest.approx(4.0, rel=0.01)


def test_refused_callers_that_send_again_at_once_are_forgotten() -> None:
    """Ten thousand refusals in an instant, then a window in which all are let in: no overload."""
    arrivals = fed(poisson(1000, 3000))
    for _ in range(10_000):
        arrivals.refused(arrivals.newest)
    begin = arrivals.newest
    for time in poisson(1000, 1500):
        arrivals.arrived(begin + time)
        arrivals.digest(begin + time, 1.0, 5e-3)
        if time < 0.8:
            assert arrivals.offered_ratio > 4
    assert arrivals.offered_ratio == 1.0


def test_refusals_over_a_hang_are_remembered() -> None:
    """Every second job is refused, and nothing is learned for many windows: twice as many came."""
    arrivals = ArrivalRate()
    for number, time in enumerate(poisson(8000, 16_000)):
        (arrivals.refused if number % 2 else arrivals.arrived)(time)
    arrivals.digest(arrivals.newest, 0.1, 5e-3)
    assert arrivals.offered_ratio == pytest.approx(2.0, rel=0.01)


def test_an_overload_is_remembered_in_silence() -> None:
    """Peaks of which three quarters are refused are known when the next one begins."""
    arrivals = ArrivalRate()
    for peak in range(20):
        for step in range(20):
            time = peak + step * 1e-4
            arrivals.arrived(time)
            arrivals.digest(time, 16.0, 5e-3)
        for _ in range(60):
            arrivals.refused(peak + 2e-3)
    arrivals.arrived(20.0)
    arrivals.digest(20.0, 16.0, 5e-3)
    assert arrivals.offered_ratio == pytest.approx(4.0, rel=0.1)


def test_silence_lowers_the_rate() -> None:
    """After one window of silence about a third is left of it."""
    times = poisson(1000, 5000)
    arrivals = fed(times)
    assert arrivals.rate(times[-1] + 1.0, 1.0) == pytest.approx(368, rel=0.15)


def test_without_a_window_there_is_no_rate() -> None:
    """Before a batch has run, nothing says over how long to count."""
    assert fed(poisson(1000, 100), window=0.0).rate(0.1, 0.0) == 0.0


def test_the_hazard_of_poisson_traffic_is_flat() -> None:
    """Arrivals without memory are as likely after a short silence as after a long one."""
    times = poisson(200, 3000)
    arrivals = fed(times)
    hazards = [arrivals.hazard(times[-1] + age, 200.0, 5e-3)[0] for age in (1e-4, 5e-4, 3e-3)]
    assert hazards == pytest.approx([200] * 3, rel=0.35)


def test_the_hazard_of_a_rush_is_high_however_short_a_batch_it_fills() -> None:
    """Twenty arrivals 1 µs apart, then 4 ms without one: the rush is 5,000/s on average only."""
    times = [rush * 4e-3 + step * 1e-6 for rush in range(200) for step in range(20)]
    hazard, _ = fed(times).hazard(times[-1], 5000.0, 5e-3)
    assert hazard > 5 * 5000


def test_the_hazard_of_clumps_is_high_and_then_low() -> None:
    """Within a clump the next arrival is near; after it, it is far."""
    starts = poisson(20, 400)
    times = sorted(start + i * 2e-4 for start in starts for i in range(8))
    arrivals = fed(times)
    soon, _ = arrivals.hazard(times[-1] + 1e-4, 160.0, 5e-3)
    late, _ = arrivals.hazard(times[-1] + 4e-3, 160.0, 5e-3)
    assert soon > 10 * late


def test_an_estimate_says_how_long_it_holds() -> None:
    """The hazard is a step function of the silence, and its next step is named."""
    arrivals = fed([1.0])
    assert arrivals.hazard(1.0001, 10.0, 5e-3)[1] == 1.0 + 0.05 * 5e-3
    assert arrivals.hazard(1.1, 10.0, 5e-3)[1] == float("inf")


def clumped(answers: int) -> tuple[ArrivalRate, float]:
    """Eight callers that came a millisecond after each of some answers; and the last one's time."""
    arrivals, now = ArrivalRate(), 0.0
    for _ in range(answers):
        for i in range(8):
            arrivals.arrived(now + 1e-3 + i * 1e-5)
        now += 10e-3
        arrivals.digest(now, 1.0, 5e-3)
        arrivals.clump.answered(now, 8, 1)
    return arrivals, now


def test_answers_bring_clumps() -> None:
    """Callers that send again a millisecond after each answer are expected after the next."""
    arrivals, now = clumped(50)
    expected = dict(arrivals.clump.steps(now))
    assert max(expected.values()) == pytest.approx(8, rel=0.05)
    assert expected[min(expected)] == 0.0


@pytest.mark.parametrize(("workers", "after_few"), [(1, 2.0), (2, 10.7)])
def test_few_callers_come_after_a_small_answer(workers: int, after_few: float) -> None:
    """Callers in turns of 28 and 2 make no clump of 15; those of two workers come more evenly."""
    arrivals, now = ArrivalRate(), 0.0
    for turn in range(96):
        now += 6.6e-3
        if turn:
            arrivals.digest(now, 1.0, 5e-3)
        callers = 2 if turn % 2 else 28
        arrivals.clump.answered(now, callers, workers)
        for _ in range(callers):
            arrivals.arrived(now + 1e-3)
    assert arrivals.clump.whole == pytest.approx(after_few, rel=0.1)


def test_what_an_answer_brings_is_not_expected_again_when_it_is_here() -> None:
    """Gaps within clumps are short, and yet nobody follows the last: all callers have returned."""
    arrivals, now = clumped(96)
    for i in range(8):
        arrivals.arrived(now + 1e-3 + i * 1e-5)
    here = now + 1.1e-3
    arrivals.digest(here, 1.0, 5e-3)
    assert arrivals.hazard(here, 800.0, 5e-3)[0] > 800.0
    assert arrivals.clump.unanswered < 0.1
    assert fed(poisson(1000, 1000)).clump.unanswered == 1.0


def test_nothing_is_expected_long_after_an_answer() -> None:
    """A clump that did not come is expected for four batches of one, and no longer."""
    arrivals, now = clumped(48)
    assert arrivals.clump.size(now + 0.5e-3) == pytest.approx(8, rel=0.1)
    assert arrivals.clump.size(now + 4 * 5e-3) == 0.0


def after_each_answer(arrivals: ArrivalRate, cycles: int, seconds: list[float]) -> float:
    """Let callers come so long after each answer, which are 6.6 ms apart; the last one's time."""
    now = 0.0
    for _ in range(cycles):
        for second in seconds:
            arrivals.arrived(now + second)
        now += 6.6e-3
        arrivals.digest(now, 1.0, 5e-3)
        arrivals.clump.answered(now, len(seconds), 1)
    return now


def test_when_all_callers_are_back_no_more_are_expected() -> None:
    """Eight callers return within a millisecond: after the eighth no step has to end."""
    arrivals, returns = ArrivalRate(), [0.5e-3 + 1e-3 * number / 7 for number in range(8)]
    now = after_each_answer(arrivals, 96, returns)
    for second in returns[:5]:
        arrivals.arrived(now + second)
    here = now + 1.2e-3
    arrivals.arrived(here)
    arrivals.arrived(here)
    arrivals.digest(here, 1.0, 5e-3)
    assert arrivals.clump.size(here) > 0.5
    arrivals.arrived(here)
    arrivals.digest(here, 1.0, 5e-3)
    assert arrivals.clump.size(here) == 0.0


def test_a_clump_may_last_for_most_of_the_time_between_answers() -> None:
    """Callers that come back until just before the next answer are no background."""
    arrivals = ArrivalRate()
    now = after_each_answer(arrivals, 96, [1e-3 + 3.5e-3 * number / 31 for number in range(32)])
    assert arrivals.clump.size(now) == pytest.approx(32, rel=0.1)


def test_a_clump_is_seen_above_others_who_come_all_the_time() -> None:
    """Ten come back after each answer, twenty more come evenly until the next: ten are a clump.

    What comes later than that has never been seen, so none of it is background.
    """
    arrivals = ArrivalRate()
    evenly = [6.5e-3 * number / 20 for number in range(20)]
    now = after_each_answer(arrivals, 96, sorted([*evenly, *[0.5e-3] * 10]))
    assert arrivals.clump.size(now) == pytest.approx(10, rel=0.2)


def test_refused_callers_show_when_they_come_back() -> None:
    """Eight are back at once and refused; the eight let in before the next answer are the same."""
    arrivals, now = ArrivalRate(), 0.0
    for _ in range(48):
        for _ in range(4):  # they don't give up
            for caller in range(8):
                arrivals.refused(now + 0.5e-3 + caller * 1e-5)
        for caller in range(8):
            arrivals.arrived(now + 5e-3 + caller * 1e-5)
        now += 6.6e-3
        arrivals.digest(now, 1.0, 5e-3)
        arrivals.clump.answered(now, 8, 1)
    assert arrivals.clump.size(now) == pytest.approx(8, rel=0.1)
    assert arrivals.clump.size(now + 1.5e-3) < 1.0


def test_callers_of_jobs_that_were_shed_are_expected_as_well() -> None:
    """Eight are answered and four shed in that instant: all twelve callers return."""
    arrivals, now = clumped(96)
    arrivals.clump.shed(now, 4)
    assert arrivals.clump.size(now) == pytest.approx(12, rel=0.1)
    assert arrivals.clump.unanswered < 0.1


def test_jobs_that_expire_while_a_worker_hangs_belong_to_no_clump() -> None:
    """What comes and goes long after the last answer was not brought by it, and is not kept."""
    arrivals, now = clumped(96)
    for number in range(20_000):
        time = now + 1.0 + number * 1e-3
        arrivals.arrived(time)
        arrivals.refused(time)
        arrivals.clump.shed(time, 1)
    now += 25.0
    arrivals.digest(now, 1.0, 5e-3)
    arrivals.clump.answered(now, 8, 1)
    assert arrivals.clump.size(now) == pytest.approx(8, rel=0.1)


def test_whether_callers_return_in_whose_favour_they_were_shed_is_learned() -> None:
    """Four are shed for eight: of the next batch's jobs none is theirs, or all four are."""
    arrivals, now = clumped(96)
    arrivals.clump.shed(now, 4, for_the_many=True)
    arrivals.clump.answered(now + 6e-3, 8, 1)
    unseen = arrivals.clump.returning
    assert unseen == pytest.approx(0.5, abs=0.1)
    arrivals.clump.shed(now + 6e-3, 4, for_the_many=True)
    arrivals.clump.answered(now + 12e-3, 14, 1)
    assert arrivals.clump.returning > unseen


@pytest.mark.parametrize("rate", [500.0, 5e3, 20e3])
@pytest.mark.parametrize("between", [[6.6e-3], [0.1e-3, 0.1e-3, 0.1e-3, 40e-3]])
def test_arrivals_at_random_are_no_clump(rate: float, between: list[float]) -> None:
    """Independent arrivals never look as if an answer had brought them, nor if answers bunch."""
    for seed in range(8):
        times, arrivals, now = poisson(rate, int(rate * 2), seed), ArrivalRate(), 0.0
        pauses = cycle(between)
        while times:
            now += next(pauses)
            while times and times[0] <= now:
                arrivals.arrived(times.pop(0))
            if arrivals.fresh:
                arrivals.digest(now, 1.0, 5e-3)
            arrivals.clump.answered(now, 1, 1)
            assert arrivals.clump.size(now) == 0.0


def test_arrivals_that_nobody_asks_about_do_not_pile_up() -> None:
    """While every worker hangs, a flood is forgotten again."""
    arrivals = ArrivalRate()
    for time in range(100_000):
        arrivals.arrived(float(time))
    assert len(arrivals.fresh) < 20_000


def test_a_hang_is_no_flood() -> None:
    """Over 5 s in which nothing is learned, 20,000 jobs a second of ten items are no more."""
    arrivals, window = ArrivalRate(), 0.136
    times = poisson(20_000, 120_000)
    for number, time in enumerate(times):
        arrivals.arrived(time)
        arrivals.more_items += 9
        if number < 20_000 and number % 64 == 63:
            arrivals.digest(time, window, 5e-3)
    assert arrivals.rate(times[-1], window) == pytest.approx(20_000, rel=0.05)
    arrivals.digest(times[-1], window, 5e-3)
    assert arrivals.rate(times[-1], window) == pytest.approx(20_000, rel=0.05)
    assert arrivals.mean_size == pytest.approx(10.0)


def test_a_batch_that_takes_an_hour_leaves_no_rate() -> None:
    """What came before it is as long ago; how many items a job brings is still known."""
    arrivals = fed(poisson(1000, 100), window=0.1)
    now = arrivals.newest
    arrivals.arrived(now)
    arrivals.digest(now + 3600.0, 0.1, 5e-3)
    assert (arrivals.rate(now + 3600.0, 0.1), arrivals.mean_size) == (0.0, 1.0)


def test_what_came_is_counted_before_it_is_learned_from() -> None:
    """The rate, the newest and what is left of a clump are what they are once it is learned."""
    arrivals, now = clumped(96)
    for step in range(3):
        arrivals.arrived(now + step * 1e-4)
    now += 1e-3
    counted = arrivals.rate(now, 1.0), arrivals.newest, arrivals.clump.size(now)
    arrivals.digest(now, 1.0, 5e-3)
    learned = arrivals.rate(now, 1.0), arrivals.newest, arrivals.clump.size(now)
    assert counted == pytest.approx(learned)


def test_before_any_gap_the_hazard_is_the_plain_rate() -> None:
    """A single arrival says nothing about the silence after it."""
    assert fed([1.0]).hazard(1.0001, 10.0, 5e-3)[0] == pytest.approx(10.0)


@pytest.mark.parametrize("seed", range(10))
def test_a_hazard_ends_in_the_future(seed: int) -> None:
    """When an age of the silence has ended the next one holds, however that instant was rounded."""
    arrivals = fed([1000.0 + time for time in poisson(200, 20, seed)])
    now = arrivals.newest
    while now < inf:
        _, until = arrivals.hazard(now, 200.0, 5e-3)
        assert until > now
        now = until
