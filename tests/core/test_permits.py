"""Who may run the next batch: random histories of workers that come, go and take their time."""

from contextlib import suppress
from math import exp

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from adaptive_batching.core import Batch, Job, Limits, Outcome, Reason, Scheduler, make_policy
from adaptive_batching.core.estimators.cost_latency import CostLatency
from adaptive_batching.core.estimators.latency import LinearLatency
from adaptive_batching.core.estimators.pace import Pace
from adaptive_batching.core.permits import Permits
from adaptive_batching.errors import Overloaded

SLOWNESS = (1.0, 1.0, 4.0, 0.5)  # by worker


def batch(permits: Permits, now: float, size: int = 8) -> Batch:
    worker = permits.idlest
    predicted = worker.latency.predict(size)
    return Batch([Job(now)], size, None, Reason.IDLE, now, predicted, 0, worker.index)


def trained(*slowness: float, fixed: float = 5e-3, per_item: float = 5e-5) -> Permits:
    """Permits that have seen each worker run sixty batches of many sizes."""
    permits = Permits(len(slowness))
    for step in range(60):
        size = 1 + 7 * step % 20
        for index, factor in enumerate(slowness):
            permits.learn(index, size, factor * (fixed + per_item * size))
    return permits


def test_equals_take_turns() -> None:
    """Of workers that are alike, the one that has been idle longest runs the next batch."""
    permits = Permits(3)
    first, second = batch(permits, 0.0), None
    permits.take(first)
    second = batch(permits, 0.1)
    permits.take(second)
    permits.give_back(second)
    permits.give_back(first)
    assert [first.worker, second.worker] == [0, 1]
    order = []
    for _ in range(3):
        permits.take(batch(permits, 1.0))
        order.append([each.index for each in permits.workers if each.batch is not None][-1])
    assert permits.idle == 0
    assert not permits.uneven


def test_a_slow_worker_is_known_by_its_batches() -> None:
    """The line is that of a worker as fast as most; the slow one has a factor on it."""
    permits = trained(1.0, 1.0, 1.0, 4.0)
    factors = [worker.latency.factor for worker in permits.workers]
    assert factors[:3] == [1.0, 1.0, 1.0]
    assert factors[3] == pytest.approx(4.0, rel=0.1)
    assert permits.workers[3].latency.predict(20) == pytest.approx(24e-3, rel=0.1)
    assert permits.latency.predict(20) == pytest.approx(6e-3, rel=0.05)


def test_idle_workers_count_by_their_speed_where_items_cost_much() -> None:
    """One of half the speed gets half as many of them."""
    permits = trained(1.0, 2.0, fixed=1e-3, per_item=5e-3)
    assert permits.idle_share(permits.latency, 8) == pytest.approx(1.5, rel=0.05)
    permits = trained(1.0, 1.0, 1.0)
    assert permits.idle_share(permits.latency, 8) == pytest.approx(3.0, rel=0.05)


def test_a_slow_idle_worker_counts_only_if_it_answers_its_part_sooner() -> None:
    """Its fixed part takes as long as a faster one needs for the few items more."""
    permits = trained(1.0, 2.0)
    assert permits.idle_share(permits.latency, 8) == 1.0


def test_a_model_that_slows_down_makes_no_worker_slow() -> None:
    """The fast one of two ran all batches since: the other is not taken for as fast as that."""
    permits = trained(1.0, 2.0)
    for _ in range(6):
        permits.learn(0, 8, 2 * 5.4e-3)
    fast, slow = permits.workers
    assert fast.latency.predict(8) == pytest.approx(2 * 5.4e-3, rel=0.1)
    assert slow.latency.predict(8) == pytest.approx(4 * 5.4e-3, rel=0.1)


def test_the_fastest_of_the_idle_is_chosen() -> None:
    """However long the others have been idle."""
    assert trained(2.0, 1.0, 2.0).idlest.index == 1


def test_a_restart_keeps_what_was_learned_and_a_new_worker_begins_with_the_pool() -> None:
    """The same place has the same machine behind it; of a new one nothing is known."""
    permits = trained(1.0, 1.0, 4.0)
    permits.set_alive([0, 1])
    assert not permits.uneven
    permits.set_alive([0, 1, 2, 3])
    assert permits.uneven
    assert permits.workers[2].latency.factor == pytest.approx(4.0, rel=0.1)
    assert permits.workers[3].latency.factor == 1.0


@pytest.mark.parametrize("slow", [0, 1, 2])
def test_a_rehearsal_tells_workers_apart(slow: int) -> None:
    """One run of each size on each worker: the line is that of most, one has a factor."""
    permits = Permits(3)
    factors = [4.0 if index == slow else 1.0 for index in range(3)]
    sizes = (1, 2, 4, 8, 16, 32, 64)
    permits.rehearse(
        (index, size, factor * (5e-3 + 5e-5 * size), 0.0)
        for index, factor in enumerate(factors)
        for size in sizes
    )
    for worker, factor in zip(permits.workers, factors, strict=True):
        assert worker.latency.factor == pytest.approx(factor, rel=0.1)
        assert worker.latency.predict(64) == pytest.approx(factor * 8.2e-3, rel=0.1)
        assert worker.latency.predict(1) == pytest.approx(factor * 5.05e-3, rel=0.1)
    assert permits.latency.trusted


def test_a_rehearsal_with_costs() -> None:
    """Each size ran with cheap and with costly items: what a unit of cost takes is known."""
    permits = Permits(2, CostLatency())
    permits.rehearse(
        (worker, size, factor * (5e-3 + 1e-5 * size * cost), size * cost)
        for worker, factor in enumerate((1.0, 3.0))
        for size in (1, 2, 4, 8, 16)
        for cost in (10, 200)
    )
    for worker, factor in zip(permits.workers, (1.0, 3.0), strict=True):
        assert worker.latency.predict(16, 160) == pytest.approx(factor * 6.6e-3, rel=0.1)
        assert worker.latency.predict(16, 3200) == pytest.approx(factor * 37e-3, rel=0.1)


def test_a_place_that_passes_to_another_worker() -> None:
    """What was learned of who had it before says nothing; who comes back under a name is known."""
    permits = trained(1.0, 1.0, 4.0)
    permits.set_alive([0, 1, 2], {0: "a", 1: "b", 2: "c"})
    assert not permits.uneven
    for _ in range(30):
        permits.learn(2, 8, 4 * 5.4e-3)
        for index in (0, 1):
            permits.learn(index, 8, 5.4e-3)
    assert permits.uneven
    permits.set_alive([0, 1], {0: "a", 1: "b"})
    permits.set_alive([0, 1, 2], {0: "a", 1: "b", 2: "c"})
    assert permits.uneven
    permits.set_alive([0, 1], {0: "a", 1: "b"})
    permits.set_alive([0, 1, 2], {0: "a", 1: "b", 2: "d"})
    assert not permits.uneven
    assert permits.workers[2].latency.factor == 1.0
    assert (permits.idle, permits.capacity) == (3, 3)


def test_a_worker_that_dies_under_its_batch() -> None:
    """It is idle again only when the batch was given back and it is alive."""
    permits = Permits(2)
    held = batch(permits, 0.0)
    permits.take(held)
    permits.set_alive([1])
    assert (permits.idle, permits.capacity, len(permits.running)) == (1, 1, 1)
    permits.set_alive([0, 1])
    assert permits.idle == 1
    permits.give_back(held)
    assert permits.idle == 2


def test_what_all_have_in_common_is_no_workers_doing() -> None:
    """When the model takes twice as long everywhere, nobody is called slow for it."""
    permits = trained(1.0, 1.0, 1.0)
    for _ in range(30):
        for index in range(3):
            permits.learn(index, 8, 2 * 5.4e-3)
            assert not permits.uneven
    assert permits.latency.predict(8) == pytest.approx(10.8e-3, rel=0.05)


def test_a_worker_that_has_run_cold_batches_alone_is_not_called_slow() -> None:
    """It would get no other batch by which to be known, as long as the warm one is not busy."""
    permits = Permits(3)
    for index in (0, 1, 2, 0, 1):
        permits.learn(index, 4, 0.4)
    for _ in range(20):
        permits.learn(2, 4, 0.036)
        assert not permits.uneven
    for index in (0, 1) * 10:
        permits.learn(index, 4, 0.036)
    assert not permits.uneven


def test_one_pause_makes_nobody_slow() -> None:
    """A batch that takes ten times as long is a pause of the machine."""
    pace = Pace()
    for ratio in (0.02, -0.02) * 20:
        pace.observe(ratio)
    pace.observe(2.3)
    assert not pace.differs(0.0)


def test_a_worker_that_slows_down_is_believed_after_four_batches() -> None:
    """And one that has recovered after a single one: nothing is fast by accident."""
    pace = Pace()
    for ratio in (0.02, -0.02) * 20:
        pace.observe(ratio)
    for _ in range(4):
        assert not pace.differs(0.0)
        pace.observe(1.1)
    assert pace.differs(0.0)
    assert exp(pace.log_ratio) == pytest.approx(3.0, rel=0.01)
    pace.observe(0.0)
    assert not pace.differs(0.0)


def test_one_worker_is_its_own_pool() -> None:
    """Its batches go to the line as they are, to the last bit."""
    permits, line = Permits(1), LinearLatency()
    for size in (1, 5, 9) * 30:
        permits.learn(0, size, 1e-3 * size)
        line.observe(size, 1e-3 * size)
    assert permits.latency.predict(7) == line.predict(7)


class Scheduling(RuleBasedStateMachine):
    """Jobs arrive, batches end on workers of different speed, workers die and are back."""

    @initialize(
        policy=st.sampled_from(["cork", "greedy", "nexus"]), patience=st.sampled_from([1e9, 0.03])
    )
    def begin(self, policy: str, patience: float) -> None:
        self.scheduler = Scheduler(make_policy(policy), Limits(8, patience), workers=3)
        self.patience = patience
        self.now = 0.0
        self.alive = {0, 1, 2}
        self.running: list[Batch] = []
        self.left: list[Job] = []

    @rule(count=st.integers(1, 20))
    def submit(self, count: int) -> None:
        for _ in range(count):
            with suppress(Overloaded):
                self.scheduler.submit(Job(self.now, deadline=self.now + self.patience))
        self.decide()

    @rule(seconds=st.sampled_from([1e-4, 1e-3, 5e-3, 0.1]))
    def advance(self, seconds: float) -> None:
        self.now += seconds
        self.decide()

    @precondition(lambda self: self.running)
    @rule(times=st.integers(1, 30))
    def finish(self, times: int) -> None:
        """The batch that ends first ends, so many times."""
        for _ in range(times):
            if not self.running:
                return
            done = min(self.running, key=self.end)
            self.running.remove(done)
            self.now = max(self.now, self.end(done))
            self.scheduler.finish(done, Outcome.DONE, self.now)
            for _ in range(8):
                self.scheduler.submit(Job(self.now))
            self.decide()

    @rule(alive=st.sets(st.integers(0, 3)), names=st.text("ab", min_size=4, max_size=4))
    def workers_change(self, alive: set[int], names: str) -> None:
        """Some come and some go; a place may have passed to another worker."""
        self.alive = alive
        self.scheduler.permits.set_alive(alive, {index: names[index] for index in alive})
        for lost in [each for each in self.running if each.worker not in alive]:
            self.running.remove(lost)
            self.scheduler.finish(lost, Outcome.FAILED, self.now)
        self.decide()

    @invariant()
    def permits_are_right(self) -> None:
        """Never negative: as many as are alive and run nothing."""
        if hasattr(self, "scheduler"):
            busy = {each.worker for each in self.running}
            assert self.scheduler.permits.idle == len(self.alive - busy)
            assert len(self.scheduler.permits.running) == len(self.running)

    def decide(self) -> None:
        """No batch to a busy or dead worker, and nobody leaves twice."""
        while isinstance(step := self.scheduler.next(self.now), Batch) or hasattr(step, "jobs"):
            assert not set(map(id, step.jobs)) & set(map(id, self.left))
            self.left += step.jobs
            if isinstance(step, Batch):
                assert step.worker in self.alive
                assert step.worker not in {each.worker for each in self.running}
                self.running.append(step)
        assert step.until > self.now

    def end(self, each: Batch) -> float:
        return each.released + SLOWNESS[each.worker] * (5e-3 + 5e-4 * each.size)


TestScheduling = Scheduling.TestCase


def test_dead_workers_give_no_time_for_probes() -> None:
    """The budget is a fiftieth of the time of those that are alive."""
    permits = Permits(4)
    permits.spend_on_probe(1.0, 0.1)
    assert permits.next_probe == pytest.approx(1.0 + 50 * 0.1 / 4)
    permits.set_alive([0])
    permits.spend_on_probe(10.0, 0.1)
    assert permits.next_probe == pytest.approx(10.0 + 50 * 0.1)
