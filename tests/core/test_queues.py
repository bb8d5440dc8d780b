"""Whose turn it is among several batch keys."""

from collections.abc import Hashable, Sequence
from itertools import compress
from math import inf
from random import Random
from typing import Any

import pytest

from adaptive_batching.core import (
    Batch,
    Decision,
    Dispatch,
    Hold,
    Job,
    Limits,
    Outcome,
    Policy,
    Reason,
    Scheduler,
    Shed,
    ShedReason,
    Situation,
)
from adaptive_batching.core.estimators.delays import TimerLateness
from adaptive_batching.core.policies.cork.cork import Cork
from adaptive_batching.core.policies.greedy import Greedy
from adaptive_batching.core.queues.queues import Queues
from adaptive_batching.errors import Overloaded, PolicyError
from adaptive_batching.simulation import Experiment, Lots, Server, poisson
from tests.core.steps import released

CAPACITY = 64 / 8.2e-3  # requests a second and worker, without keys


def come(scheduler: Scheduler, count: int, key: Hashable, now: float, patience: float) -> None:
    """Some single jobs of one key."""
    for _ in range(count):
        scheduler.submit(Job(now, deadline=now + patience, key=key))


def experienced(workers: int = 1) -> Scheduler:
    """One with `cork` that knows batches to take 5 ms + 0.05 ms an item."""
    scheduler = Scheduler(Cork(), Limits(64, 25e-3), workers)
    for size in (1, 8, 64) * 10:
        scheduler.latency.observe(size, 5e-3 + 0.05e-3 * size)
    return scheduler


def test_while_all_can_be_in_time_the_earliest_deadline_goes_first() -> None:
    """One lonely request is served before a crowd that came a moment later."""
    scheduler = experienced()
    come(scheduler, 1, "lonely", 0.0, 25e-3)
    come(scheduler, 40, "crowd", 1e-3, 25e-3)
    assert released(scheduler.next(1e-3)).key == "lonely"


def test_the_traffic_of_all_queues_is_told_from_what_left_of_each() -> None:
    """Of four items that come and leave three are of one key; both queues tell of the same."""
    seen: dict[Hashable, Situation] = {}

    class Watched(Greedy):
        def decide(self, situation: Situation) -> Decision:
            seen[situation.head.key] = situation
            return super().decide(situation)

    scheduler = Scheduler(Watched(), Limits(64), 1)
    for size in (1, 8, 64) * 10:
        scheduler.latency.observe(size, 5e-3 + 0.05e-3 * size)
    for turn in range(200):
        now = turn * 10e-3
        come(scheduler, 1, "rare", now, 1.0)
        come(scheduler, 3, "frequent", now, 2.0)
        for _ in range(2):
            scheduler.finish(released(scheduler.next(now)), Outcome.DONE, now := now + 5e-3)
    assert seen["rare"].all_items == 4
    assert seen["frequent"].all_items == 3  # the other's have left
    for situation in seen.values():
        assert situation.all_rate == pytest.approx(400.0, rel=0.1)


def test_a_key_that_was_quiet_for_long_is_as_good_as_any() -> None:
    """Of what left, its share is so small that nothing can be divided by it."""
    scheduler = experienced()
    queues = Queues(scheduler.limits, scheduler.permits, TimerLateness(), weighing=False)
    quiet, _ = (queues.open(key, scheduler.limits, None, 0.0) for key in ("quiet", "busy"))
    queues.left("quiet", 1)
    for _ in range(370_000):
        queues.left("busy", 1)
    quiet.queue.append(Job(1.0, key="quiet"))
    queues.items = 1
    known = quiet.situation(1.0)._replace(all_rate=2.0)
    assert queues.among(quiet, known).all_rate == 2.0 * 500.0


def test_when_they_cannot_the_batch_that_is_worth_most_goes_first() -> None:
    """Of six keys four can be in time; the two lonely requests are not among them, though they came
    first.
    """
    scheduler = experienced()
    for key in range(6):
        come(scheduler, 1 if key < 2 else 40, key, key * 1e-6, 25e-3)
    now, answered = 1e-5, []
    while not isinstance(step := scheduler.next(now), Hold):
        if isinstance(step, Batch):
            answered.append(step.key)
            now += step.predicted
            scheduler.finish(step, Outcome.DONE, now)
    assert answered == [2, 3, 4]
    assert scheduler.items == 0


def test_a_job_whose_last_moment_has_passed_is_shed_whatever_key_goes_first() -> None:
    """It is told as soon as a worker is free, not at its deadline; one still in time waits on."""
    scheduler = experienced()
    come(scheduler, 40, 0, 0.0, 25e-3)
    running = released(scheduler.next(0.0))
    come(scheduler, 1, "late", 0.0, 12.5e-3)
    come(scheduler, 1, "in time", 0.0, 14e-3)
    for key in range(6):
        come(scheduler, 40, key, 0.0, 25e-3)
    scheduler.finish(running, Outcome.DONE, 8e-3)
    step = scheduler.next(8e-3)
    assert isinstance(step, Shed)
    assert ([job.key for job in step.jobs], step.reason) == (["late"], ShedReason.HOPELESS)
    assert released(scheduler.next(8e-3)).key in range(6)
    assert scheduler.queued("in time") == 1


def test_a_scheduler_that_closes_sheds_no_job_before_its_turn() -> None:
    """What waits leaves as soon as a worker is free, as it would with one key."""
    scheduler = experienced()
    come(scheduler, 40, 0, 0.0, 25e-3)
    running = released(scheduler.next(0.0))
    come(scheduler, 1, "late", 0.0, 12.5e-3)
    come(scheduler, 40, 1, 0.0, 25e-3)
    scheduler.drain()
    scheduler.finish(running, Outcome.DONE, 8e-3)
    assert isinstance(scheduler.next(8e-3), Batch)
    assert scheduler.permits.idle == 0


class Displacing(Greedy):
    """Gives up a job for each batch."""

    def decide(self, situation: Situation) -> Decision:
        if situation.items % 2 == 0:
            return Shed([situation.head], ShedReason.DISPLACED)
        return super().decide(situation)


def test_a_key_that_gave_up_a_job_for_its_batch_goes_first() -> None:
    """What is left of it may wait for longer than another key."""
    scheduler = Scheduler(Displacing(), Limits())
    come(scheduler, 1, "one", 0.0, 1.0)
    come(scheduler, 1, "one", 0.0, 3.0)
    come(scheduler, 1, "two", 0.0, 2.0)
    assert isinstance(scheduler.next(0.0), Shed)
    assert released(scheduler.next(0.0)).key == "one"


def test_a_turn_was_kept_while_there_was_no_other_key() -> None:
    """It is none by the time that there is one."""
    scheduler = Scheduler(Displacing(), Limits())
    come(scheduler, 2, "one", 0.0, 1.0)
    assert isinstance(scheduler.next(0.0), Shed)
    scheduler.finish(released(scheduler.next(0.0)), Outcome.DONE, 0.1)
    come(scheduler, 1, "one", 9.0, 2.0)
    come(scheduler, 1, "two", 9.0, 0.1)
    assert released(scheduler.next(9.0)).key == "two"


def test_a_batch_that_can_wait_lets_a_smaller_one_go_first() -> None:
    """What is worth more goes first for that alone, unless it can still be put off."""
    scheduler = experienced()
    come(scheduler, 10, "pressed", 0.0, 12e-3)
    for key in range(4):
        come(scheduler, 14, key, 1e-6, 60e-3)
        come(scheduler, 1, f"late {key}", 1e-6, 8e-3)
    assert released(scheduler.next(1e-5)).key == "pressed"


def test_the_next_key_is_found_whatever_came_and_went() -> None:
    """Jobs of nine keys with deadlines in any order come, are cancelled, expire and leave: each
    batch is of the key with the most urgent job, as a look at all of them would have it.
    """
    random = Random(1)
    scheduler = Scheduler(Greedy(), Limits(4))
    scheduler.latency.observe(1, 1e-3)
    waiting: list[Job] = []
    for tick in range(3000):
        now = tick * 1e-3
        for _ in range(random.randrange(4)):
            patience = random.choice([5e-3, 20e-3, 20e-3, 80e-3, inf])
            job = Job(now, deadline=now + patience, key=random.randrange(9))
            scheduler.submit(job)
            waiting.append(job)
        if waiting and random.random() < 0.3:
            scheduler.cancel(random.choice(waiting))
        waiting = [job for job in waiting if job.waiting]
        while isinstance(step := scheduler.next(now), Shed):
            assert all(job.deadline <= now for job in step.jobs)
            waiting = [job for job in waiting if job.waiting]
        if waiting:
            batch = released(step)
            waited_for = 4 * sum_of_batches(waiting)
            urgent = [min(job.deadline, job.arrived + waited_for) for job in waiting]
            of_its_key = [job.key == batch.key for job in waiting]
            assert min(urgent) == min(compress(urgent, of_its_key))
            scheduler.finish(batch, Outcome.FAILED, now)


def sum_of_batches(waiting: Sequence[Job]) -> float:
    """Seconds that all who wait take, in batches of up to four that take a millisecond each."""
    keys = len({job.key for job in waiting})
    return (keys + (len(waiting) - keys) // 4) * 1e-3


@pytest.mark.parametrize("policy", [Greedy, Cork])
def test_a_key_without_deadline_does_not_wait_for_a_busy_one(policy: type[Policy]) -> None:
    """One worker always has the next request of another key to run, which is in a hurry; the one
    that can wait leaves after a few of them.
    """
    scheduler = Scheduler(policy(), Limits(64))
    for _ in range(9):
        scheduler.latency.observe(1, 5e-3)
    come(scheduler, 1, "patient", 0.0, inf)
    now, keys = 0.0, list[Hashable]()
    while "patient" not in keys:
        come(scheduler, 1, "hasty", now, 15e-3)
        batch = released(scheduler.next(now))
        keys.append(batch.key)
        now += 5e-3
        scheduler.finish(batch, Outcome.DONE, now)
    assert 1 < len(keys) < 10


def test_keys_of_which_every_job_was_refused_are_forgotten() -> None:
    """However many are made up for jobs that are not let in, a thousand are remembered."""
    scheduler = experienced()
    come(scheduler, 64, "busy", 0.0, 25e-3)
    released(scheduler.next(0.0))
    for key in range(2_000):
        with pytest.raises(Overloaded):
            scheduler.submit(Job(0.0, deadline=10e-3, key=key))
    assert len(scheduler.queues) == 1024
    come(scheduler, 1, "another", 0.0, 25e-3)
    assert scheduler.queued("another") == 1


def test_a_decision_asks_about_one_of_many_keys() -> None:
    """With 200 keys waiting, the policy is asked once for each batch, not 200 times."""
    asked = []

    class Counting(Greedy):
        def decide(self, situation: Situation) -> Dispatch:
            asked.append(situation)
            return Dispatch(1, Reason.IDLE)

    scheduler = Scheduler(Counting(), Limits(), workers=200)
    for key in range(200):
        come(scheduler, 1, key, key * 1e-3, inf)
    assert [released(scheduler.next(1.0)).key for _ in range(200)] == list(range(200))
    assert len(asked) == 200


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ("soon", "lookahead: expected seconds, got 'soon'"),
        (None, "lookahead: expected seconds, got None"),
        (float("nan"), "lookahead: expected 0 seconds or more, got nan"),
        (10**400, "lookahead: expected seconds that fit into a float"),
        (ZeroDivisionError("oh"), "lookahead raised ZeroDivisionError"),
    ],
)
def test_a_lookahead_that_is_none_is_named(answer: object, complaint: str) -> None:
    """Whose mistake it is, is said."""

    class Confused(Cork):
        def lookahead(self, backlog: object, now: float) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

    scheduler = Scheduler(Confused(), Limits())
    come(scheduler, 1, "a", 0.0, 1.0)
    come(scheduler, 1, "b", 0.0, 1.0)
    with pytest.raises(PolicyError, match=rf"Confused\.{complaint}"):
        scheduler.next(0.0)


def test_an_endless_lookahead_is_worth_alone() -> None:
    """Who has three seconds left goes before who has one, as there are more of them."""

    class Greediest(Cork):
        def lookahead(self, backlog: object, now: float) -> float:
            return inf

    scheduler = Scheduler(Greediest(), Limits())
    scheduler.latency.observe(1, 5e-3)
    come(scheduler, 1, "few", 0.0, 1.0)
    come(scheduler, 2, "many", 0.0, 3.0)
    assert released(scheduler.next(0.0)).key == "many"


def run(policy: str, keys: Lots, workers: int, load: float) -> tuple[float, float]:
    """Goodput of all, and of the key that fares worst."""
    rate = load * workers * CAPACITY
    arrivals = poisson(rate, 3000 / rate, seed=2)
    limits, server = Limits(64, 25e-3), Server(5e-3, 0.05e-3, jitter=0.1)
    row = Experiment(arrivals, server, limits, keys=keys, warmup=600 / rate).run(policy, workers)
    assert row.goodput is not None
    assert row.keys is not None
    return row.goodput, min(key.goodput for key in row.keys.values())


@pytest.mark.parametrize("keys", [Lots(8), Lots(8, 1.2)], ids=str)
@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("load", [0.5, 1.5])
def test_cork_answers_as_many_as_greedy_whatever_the_keys(
    keys: Lots, workers: int, load: float
) -> None:
    """With rare keys and common ones, below the capacity and above it."""
    assert run("cork", keys, workers, load)[0] >= run("greedy", keys, workers, load)[0]


def test_five_thousand_a_second_of_eight_keys() -> None:
    """Of keys by Zipf's law two thirds are in time with one worker; it was 39 in 100, and 49 with
    `greedy`.
    """
    assert run("cork", Lots(8, 1.2), 1, 5000 / CAPACITY)[0] > 0.65


def test_no_key_starves_below_capacity() -> None:
    """Half of what four workers can do: all of the rarest of eight keys are in time."""
    assert run("cork", Lots(8, 1.2), 4, 0.5)[1] == 1.0


def test_a_job_is_put_off_for_batches_that_end_at_the_knee() -> None:
    """Where more than 16 items take longer each, 64 are four batches: each costs its fixed part."""
    scheduler = experienced()
    come(scheduler, 64, "one", 0.0, inf)
    queues = scheduler._queues
    assert (queues.batches, scheduler.latency.predict(64)) == (1, queues.duration)
    scheduler.latency.peak.limit = 16
    assert (queues.batches, scheduler.latency.predict(16)) == (4, queues.duration)
    assert queues.deferral() == 4 * 4 * scheduler.latency.predict(16)
