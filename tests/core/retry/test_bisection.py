"""Who of a failed batch is guilty is found in a few rounds, and nobody else pays for it."""

from collections import Counter
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from math import ceil, inf, log2

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from adaptive_batching.core import (
    Batch,
    Costs,
    Hold,
    Job,
    JobClass,
    Limits,
    Outcome,
    Reason,
    Scheduler,
    Shed,
    Verdict,
    make_policy,
)
from tests.core.steps import released, run_out, submit

ANSWERED, RAISED, LOST, EXPIRED = "answered", "raised", "lost", "expired"


class Item(Job):
    """A job that may do harm to the batch that it is in."""

    __slots__ = ("harm", "runs", "runs_lost")

    def __init__(self, harm: Outcome, arrived: float = 0.0, deadline: float = inf) -> None:
        super().__init__(arrived, 1, deadline)
        self.harm = harm
        self.runs = 0
        self.runs_lost = 0


FINE, RAISES, KILLS = Outcome.DONE, Outcome.FAILED, Outcome.LOST
HUNG_UP = Outcome.UNANSWERED
TOLD = {FINE: ANSWERED, RAISES: RAISED, KILLS: LOST, HUNG_UP: LOST}


@dataclass
class Story:
    """Some items that arrive together, some workers, and what becomes of all of them.

    A batch takes a second; a worker that died is back after another.
    """

    items: list[Item]
    workers: int = 1
    max_batch_size: int = 64
    ends: dict[Item, list[str | Verdict]] = field(default_factory=dict)
    batches: list[Batch] = field(default_factory=list)
    deaths: int = 0

    def __post_init__(self) -> None:
        limits = Limits(self.max_batch_size)
        self.scheduler = Scheduler(make_policy("greedy"), limits, self.workers, idempotent=True)
        self._agenda: list[tuple[float, int, Batch | int]] = []
        self._order = count()

    def told(self) -> "Story":
        """Play it to its end."""
        for item in self.items:
            self.scheduler.submit(item)
        now = 0.0
        while True:
            while not isinstance(step := self.scheduler.next(now), Hold):
                self._carry_out(step, now)
            now = min(step.until, self._agenda[0][0] if self._agenda else inf)
            if now == inf:
                break
            while self._agenda and self._agenda[0][0] <= now:
                self._happen(heappop(self._agenda)[2], now)
        assert self.scheduler.items == self.scheduler.requests == 0
        assert self.scheduler.permits.idle == self.workers
        return self

    def _carry_out(self, step: Batch | Shed, now: float) -> None:
        if isinstance(step, Shed):
            for job in step.jobs:
                self._end(job, EXPIRED)
            return
        assert len(step.jobs) <= self.max_batch_size
        assert not any(job.deadline <= now for job in step.jobs)
        under_way = [what for _, _, what in self._agenda if isinstance(what, Batch)]
        assert not (step.deaths and any(batch.deaths for batch in under_way))
        self.batches.append(step)
        heappush(self._agenda, (now + 1.0, next(self._order), step))

    def _happen(self, what: Batch | int, now: float) -> None:
        permits = self.scheduler.permits
        alive = {worker.index for worker in permits.alive}
        if isinstance(what, int):
            permits.set_alive(alive | {what})
            return
        harms = {item.harm for item in what.jobs}
        outcome = next((each for each in (KILLS, HUNG_UP, RAISES) if each in harms), FINE)
        if outcome is KILLS:
            permits.set_alive(alive - {what.worker})
            heappush(self._agenda, (now + 1.0, next(self._order), what.worker))
            self.deaths += 1
        for item in what.jobs:
            item.runs += 1
            item.runs_lost += outcome is KILLS
        verdicts = self.scheduler.finish(what, outcome, now, what.jobs).verdicts
        for item in what.jobs:
            verdict = verdicts.get(item)
            if verdict is not Verdict.AGAIN:
                self._end(item, verdict or TOLD[outcome])

    def _end(self, item: Item, end: str | Verdict) -> None:
        self.ends.setdefault(item, []).append(end)

    def ends_of(self, harm: Outcome) -> Counter[str | Verdict]:
        """What becomes of the items that do this."""
        return Counter(end for item in self.items if item.harm is harm for end in self.ends[item])


def items(*harms: Outcome) -> list[Item]:
    return [Item(harm) for harm in harms]


@pytest.mark.parametrize("size", [2, 3, 5, 8, 33, 64])
@pytest.mark.parametrize("place", [0, 0.5, 1])
def test_one_that_raises_is_found_and_the_rest_is_answered(size: int, place: float) -> None:
    """Within log2(n) + 1 rounds, of which each runs two batches at the most."""
    batch = items(*[FINE] * size)
    batch[round(place * (size - 1))].harm = RAISES
    story = Story(batch).told()
    assert story.ends_of(FINE) == {ANSWERED: size - 1}
    assert story.ends_of(RAISES) == {Verdict.GUILTY: 1}
    rounds = ceil(log2(size))
    assert max(item.runs for item in batch) <= rounds + 1
    assert len(story.batches) <= 1 + 2 * rounds
    assert {each.reason for each in story.batches[1:]} == {Reason.BISECT}


def test_one_that_raises_alone_has_its_error_at_once() -> None:
    """There is nobody to tell it from, and what is certain is not tried twice."""
    story = Story(items(RAISES)).told()
    assert story.ends_of(RAISES) == {RAISED: 1}
    assert len(story.batches) == 1


@pytest.mark.parametrize(("size", "deaths"), [(1, 2), (2, 2), (3, 2), (4, 3), (30, 3), (64, 3)])
def test_one_over_whom_workers_die_is_refused_after_three_at_the_most(
    size: int, deaths: int
) -> None:
    """Its batch, its group, itself; all others get their answers."""
    story = Story(items(*[FINE] * (size - 1), KILLS)).told()
    assert story.ends_of(FINE) == Counter({ANSWERED: size - 1} if size > 1 else {})
    assert story.ends_of(KILLS) == {Verdict.QUARANTINED: 1}
    assert story.deaths == deaths
    assert len(story.batches[-1].jobs) == 1


def test_many_that_kill_have_one_worker_of_the_pool() -> None:
    """After the batch that they came in, the others are there for everybody else."""
    story = Story(items(*[FINE, KILLS] * 8, *[FINE] * 64), workers=3, max_batch_size=16).told()
    assert story.ends_of(FINE) == {ANSWERED: 8 + 64}
    assert story.ends_of(KILLS) == {Verdict.QUARANTINED: 8}
    others = [batch for batch in story.batches if batch.reason is not Reason.BISECT]
    assert max(batch.released for batch in others) == 2.0


def test_a_death_that_was_no_items_fault() -> None:
    """Who was there when a worker was killed is run again, alone too, and no harm is done."""
    scheduler = Scheduler(make_policy("greedy"), Limits(), idempotent=True)
    job = Job(0.0)
    scheduler.submit(job)
    batch = scheduler.next(0.0)
    assert isinstance(batch, Batch)
    untaught = scheduler.latency.predict(1)
    assert scheduler.finish(batch, KILLS, 1.0, [job]).verdicts == {job: Verdict.AGAIN}
    assert scheduler.latency.predict(1) == untaught
    again = scheduler.next(1.0)
    assert isinstance(again, Batch)
    assert (again.jobs, again.reason, again.deaths) == ([job], Reason.BISECT, 1)
    scheduler.finish(again, FINE, 2.0)
    assert scheduler.latency.predict(1) == 1.0


def test_members_run_again_before_those_who_wait() -> None:
    """They have waited longest; no new one travels with them."""
    crowd = items(FINE, RAISES, *[FINE] * 4)
    story = Story(crowd, max_batch_size=2).told()
    left = [[crowd.index(item) for item in batch.jobs] for batch in story.batches]
    assert left == [[0, 1], [0], [1], [2, 3], [4, 5]]


def test_a_handler_that_is_not_idempotent_runs_once() -> None:
    """Whoever fails, fails."""
    scheduler = Scheduler(make_policy("greedy"), Limits())
    jobs = [Job(0.0), Job(0.0)]
    for job in jobs:
        scheduler.submit(job)
    batch = scheduler.next(0.0)
    assert isinstance(batch, Batch)
    assert not scheduler.finish(batch, RAISES, 1.0, jobs).verdicts
    assert scheduler.next(1.0) == Hold()


def test_who_would_be_late_is_not_run_again() -> None:
    """Nobody computes an answer that comes too late, by all that is known."""
    scheduler = Scheduler(make_policy("greedy"), Limits(max_batch_size=4), idempotent=True)
    for _ in range(3):
        one = Job(0.0)
        scheduler.submit(one)
        taught = scheduler.next(0.0)
        assert isinstance(taught, Batch)
        scheduler.finish(taught, FINE, 1.0)
    hurried, patient = Job(1.0, deadline=2.5), Job(1.0, deadline=9.0)
    for job in (hurried, patient):
        scheduler.submit(job)
    batch = scheduler.next(1.0)
    assert isinstance(batch, Batch)
    verdicts = scheduler.finish(batch, RAISES, 2.0, [hurried, patient]).verdicts
    assert verdicts == {hurried: Verdict.TOO_LATE, patient: Verdict.AGAIN}


def test_who_runs_again_may_leave_or_expire_while_he_waits() -> None:
    """As anybody in the queue; the rest of his group goes on."""
    scheduler = Scheduler(make_policy("greedy"), Limits(), idempotent=True)
    jobs = [Job(0.0, deadline=5.0 + index) for index in range(4)]
    for job in jobs:
        scheduler.submit(job)
    batch = scheduler.next(0.0)
    assert isinstance(batch, Batch)
    scheduler.permits.set_alive([])
    scheduler.finish(batch, RAISES, 1.0, jobs)
    assert scheduler.requests == scheduler.items == 4
    assert scheduler.cancel(jobs[1])
    assert not scheduler.cancel(jobs[1])
    assert scheduler.next(1.0) == Hold(5.0)
    expired = scheduler.next(5.0)
    assert isinstance(expired, Shed)
    assert expired.jobs == [jobs[0]]
    scheduler.permits.set_alive([0])
    last = scheduler.next(5.5)
    assert isinstance(last, Batch)
    assert last.jobs == jobs[2:]
    assert scheduler.abandon() == []


def test_those_who_run_again_are_abandoned_with_the_rest() -> None:
    """At the end of a dispatcher whoever waits is told, they too."""
    scheduler = Scheduler(make_policy("greedy"), Limits(max_batch_size=2), idempotent=True)
    jobs = [Job(0.0) for _ in range(3)]
    for job in jobs:
        scheduler.submit(job)
    batch = scheduler.next(0.0)
    assert isinstance(batch, Batch)
    scheduler.finish(batch, RAISES, 1.0, batch.jobs)
    assert sorted(scheduler.abandon(), key=jobs.index) == jobs
    assert scheduler.items == 0


def test_a_model_that_always_fails_is_not_asked_for_ever() -> None:
    """Where the budget ends, members get the error of their batch."""
    story = Story(items(*[RAISES] * 1000), max_batch_size=50, workers=20).told()
    ends = story.ends_of(RAISES)
    first = sum(batch.reason is not Reason.BISECT for batch in story.batches)
    last = max(batch.released for batch in story.batches)
    assert len(story.batches) - first <= 100 + 0.2 * first + 10 * last
    assert ends[Verdict.OVER_BUDGET] > 0
    assert ends.total() == 1000


def test_one_guilty_in_twenty_harms_nobody_else() -> None:
    """A search that finds the innocent pays for itself, however many batches are spoiled."""
    harms = [RAISES if number % 20 == 0 else FINE for number in range(4000)]
    story = Story(items(*harms), max_batch_size=16, workers=40).told()
    assert set(story.ends_of(FINE)) == {ANSWERED}
    assert set(story.ends_of(RAISES)) <= {RAISED, Verdict.GUILTY}


harms = st.sampled_from([FINE] * 12 + [RAISES, KILLS, HUNG_UP])
patience = st.sampled_from([inf, inf, inf, 1.5, 3.0, 6.0, 20.0])


@given(
    st.lists(st.tuples(harms, patience), max_size=150),
    st.integers(1, 4),
    st.sampled_from([1, 2, 7, 16, 64]),
)
@example([(KILLS, inf)] * 9, 2, 64)
def test_every_member_has_exactly_one_end(
    crowd: list[tuple[Outcome, float]], workers: int, max_batch_size: int
) -> None:
    """Whoever is guilty, of whatever; few runs, few deaths, and no innocent pays for another."""
    story = Story([Item(harm, 0.0, due) for harm, due in crowd], workers, max_batch_size).told()
    assert [len(story.ends[item]) for item in story.items] == [1] * len(crowd)
    cut_short = {EXPIRED, Verdict.TOO_LATE, Verdict.OVER_BUDGET}
    assert set(story.ends_of(FINE)) <= {ANSWERED} | cut_short
    assert set(story.ends_of(RAISES)) <= {RAISED, Verdict.GUILTY} | cut_short
    assert set(story.ends_of(KILLS)) <= {Verdict.QUARANTINED} | cut_short
    assert set(story.ends_of(HUNG_UP)) <= {LOST, Verdict.GUILTY} | cut_short
    rounds = log2(min(max_batch_size, max(1, len(crowd))))
    assert max((item.runs_lost for item in story.items), default=0) <= 3
    assert max((item.runs for item in story.items), default=0) <= ceil(rounds) + 2


def test_halves_for_a_small_memory_are_halves_by_cost():
    """One text is as long as eight: it runs alone, and the eight together."""
    decides = Scheduler(make_policy("greedy"), Limits(64, costs=Costs()), idempotent=True)
    for cost in [1.0] * 4 + [8.0] + [1.0] * 4:
        decides.submit(Job(0.0, cost=cost))
    batch = released(decides.next(0.0))
    decides.finish(batch, Outcome.OUT_OF_MEMORY, 1.0, batch.jobs)
    costs = []
    while decides.items:
        batch = released(decides.next(1.0))
        costs.append([job.cost for job in batch.jobs])
        decides.finish(batch, Outcome.DONE, 1.0)
    assert costs == [[8.0], [1.0] * 8]


def test_halves_of_items_that_cost_nothing_are_halves_by_number():
    """64 of them, for whose memory there are 32 too many."""
    limits = Limits(64, costs=Costs(padded=True))
    decides = Scheduler(make_policy("greedy"), limits, idempotent=True)
    submit(decides, 64, 0.0)
    batch = released(decides.next(0.0))
    decides.finish(batch, Outcome.OUT_OF_MEMORY, 1.0, batch.jobs)
    assert [step.size for step in run_out(decides, lambda _: 0.1, 1.0)] == [32, 32]


@pytest.mark.parametrize(("cost", "verdict"), [(10.0, Verdict.AGAIN), (300.0, Verdict.TOO_LATE)])
def test_a_part_of_a_batch_is_predicted_by_what_its_items_cost(cost, verdict):
    """Short texts can be run again within their deadline, long ones can't."""
    decides = Scheduler(make_policy("greedy"), Limits(64, costs=Costs()), idempotent=True)
    for size, total in [(1, 10.0), (2, 800.0), (4, 40.0), (4, 4000.0)] * 10:
        decides.latency.observe(size, 1e-3 + 1e-4 * total, total)
    for _ in range(4):
        decides.submit(Job(0.0, 1, 0.1, cost=cost))
    batch = released(decides.next(0.0))
    done = decides.finish(batch, Outcome.FAILED, 0.09, batch.jobs)
    assert set(done.verdicts.values()) == {verdict}


@pytest.mark.parametrize(("sizes", "verdict"), [((), Verdict.AGAIN), ((64,), Verdict.TOO_LATE)])
def test_a_part_of_a_batch_is_predicted_at_the_size_that_is_run(sizes, verdict):
    """Two items take 12 ms by themselves, and 74 ms where the model runs 64."""
    limits = Limits(64, sizes=sizes)
    decides = Scheduler(make_policy("greedy"), limits, idempotent=True)
    for size in (1, 16, 64) * 10:
        decides.latency.observe(size, 10e-3 + 1e-3 * size)
    for _ in range(4):
        decides.submit(Job(0.0, 1, 0.1))
    batch = released(decides.next(0.0))
    done = decides.finish(batch, Outcome.FAILED, 0.05, batch.jobs)
    assert set(done.verdicts.values()) == {verdict}


@pytest.mark.parametrize(("seconds", "verdict"), [(0.01, Verdict.AGAIN), (0.2, Verdict.TOO_LATE)])
def test_a_part_of_a_batch_is_predicted_by_what_its_class_takes(seconds, verdict):
    """A slow model beside a fast one: there is no time to run a batch of it again."""
    slow = JobClass(Limits(4), idempotent=True)
    decides = Scheduler(make_policy("greedy"), Limits(4), classes={"slow": slow})
    for _ in range(10):
        decides.latency.observe(4, 1e-3)
        slow.latency.observe(4, seconds)
    for _ in range(4):
        decides.submit(Job(0.0, 1, 0.3, "slow"))
    batch = released(decides.next(0.0))
    done = decides.finish(batch, Outcome.FAILED, 0.2, batch.jobs)
    assert set(done.verdicts.values()) == {verdict}


COSTLY = [1.0] * 12 + [12.0] * 4


def costs_of_repetitions(decides: Scheduler, now: float) -> list[float]:
    """What the batches that wait cost, as the model runs them; each raises until it is alone."""
    costs = []
    while decides.items:
        batch = released(decides.next(now))
        costs.append(batch.cost)
        decides.finish(batch, RAISES, now, [job for job in batch.jobs if job.cost == 12.0])
    return costs


def costly_batch() -> tuple[Scheduler, Batch]:
    """Sixteen items of cost 60, of which the model runs one or sixteen at a cost of 64."""
    limits = Limits(16, costs=Costs(max_batch_cost=64.0), sizes=(1, 16))
    decides = Scheduler(make_policy("greedy"), limits, idempotent=True)
    for cost in COSTLY:
        decides.submit(Job(0.0, cost=cost))
    batch = released(decides.next(0.0))
    assert (batch.size, batch.cost) == (16, 60.0)
    return decides, batch


def test_no_part_costs_more_than_a_batch_may():
    """Four costly items would be filled up to sixteen, at a cost of 192: each runs alone."""
    decides, batch = costly_batch()
    decides.finish(batch, RAISES, 1.0, batch.jobs)
    costs = costs_of_repetitions(decides, 1.0)
    assert costs.count(12.0) >= 3
    assert max(costs) <= 64.0


def test_jobs_that_are_left_of_a_batch_cost_no_more_than_one_may():
    """The cheap ones are cancelled before it runs again, and the others fill none up."""
    decides, batch = costly_batch()
    decides.finish(batch, Outcome.UNSENT, 1.0, batch.jobs)
    for job in batch.jobs:
        if job.cost == 1.0:
            decides.cancel(job)
    assert costs_of_repetitions(decides, 1.0) == [12.0] * 4
    assert decides.permits.idle == 1
