"""Whatever comes that does not cost the same: what holds of every batch, and of every job."""

from collections import Counter
from collections.abc import Hashable
from math import inf
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from adaptive_batching.core import (
    Batch,
    Costs,
    Fairness,
    Hold,
    Job,
    Limits,
    Priority,
    Scheduler,
    Shed,
    make_policy,
)
from adaptive_batching.core.load import Load
from adaptive_batching.simulation import CostSeconds, Server, simulate
from adaptive_batching.simulation.clients.tenants import Claim

JOBS = 300
AGEING = 20e-3  # seconds
MOST = 3_000.0  # what a batch may cost, where memory is small
DEAREST = 350.0  # what an item costs at the most: eight of them fit


class Watched(Scheduler):
    """Looks at each step before it is taken."""

    def __init__(self, policy: str, limits: Limits, workers: int, fairness: Fairness | None):
        super().__init__(make_policy(policy), limits, workers, fairness=fairness)
        self.shared = fairness is not None
        """Whether it is a tenant's turn, and not the most urgent job's."""
        self.left = Counter[Job]()
        self.most_work = 0.0
        """Predicted seconds until all that waited had run, at the most."""

    def submit(self, job: Job) -> None:
        super().submit(job)
        self.most_work = max(self.most_work, Load.of(self, job.arrived).work)

    def next(self, now: float) -> Batch | Shed | Hold:
        first: dict[Hashable, Job] = {
            key: view.head for key, view in self.queues.items() if view.requests
        }
        step = super().next(now)
        if isinstance(step, Hold):
            return step
        self.left.update(step.jobs)
        if isinstance(step, Batch):
            self._look_at(step)
            assert self.shared or first[step.key] in step.jobs
        return step

    def _look_at(self, batch: Batch) -> None:
        limits = self.limits
        assert limits.costs is not None
        assert batch.size <= limits.max_batch_size
        assert batch.cost == pytest.approx(limits.costs.of_jobs(batch.jobs))
        assert batch.cost <= limits.costs.max_batch_cost
        assert not limits.sizes or batch.padded_size in limits.sizes


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    load=st.sampled_from([0.3, 0.8, 2.0]),
    sigma=st.sampled_from([0.4, 1.2]),
    largest=st.sampled_from([1, 4]),
    costs=st.sampled_from([Costs(), Costs(padded=True), Costs(padded=True, max_batch_cost=MOST)]),
    sizes=st.sampled_from([(), (1, 4, 16), (8, 16)]),
    tenants=st.sampled_from([0, 3]),
    keys=st.sampled_from([1, 3]),
    workers=st.sampled_from([1, 2]),
    policy=st.sampled_from(["cork", "cork", "greedy"]),
)
@example(1, 0.8, 1.2, 4, Costs(padded=True, max_batch_cost=MOST), (8, 16), 3, 3, 2, "cork")
@example(2, 2.0, 1.2, 4, Costs(padded=True, max_batch_cost=MOST), (1, 4, 16), 0, 1, 1, "cork")
@example(77193, 2.0, 1.2, 4, Costs(padded=True), (8, 16), 3, 3, 2, "greedy")
def test_every_job_ends_once_in_a_batch_within_the_limits(
    seed: int,
    load: float,
    sigma: float,
    largest: int,
    costs: Costs,
    sizes: tuple[int, ...],
    tenants: int,
    keys: int,
    workers: int,
    policy: str,
) -> None:
    """Half of the jobs have deadlines; one without waits no longer than a few times what all work
    that ever waited takes, however many more urgent ones come. Where tenants share the workers, it
    may be twice that: one that had more than its share of other keys lets the others have theirs.
    """
    random, rate = Random(seed), load * workers * 1000 / ((1 + largest) / 2)
    times, now = list[float](), 0.0
    for _ in range(JOBS):
        now += random.expovariate(rate)
        times.append(now)
    items = [random.randint(1, largest) for _ in times]
    own_costs = [min(30 * random.lognormvariate(0, sigma), DEAREST) for _ in times]
    claims = [Claim(random.randrange(tenants or 1), random.choice(list(Priority))) for _ in times]
    limits = Limits(16, costs=costs, sizes=sizes)
    fairness = Fairness({0: 2.0}, AGEING) if tenants else None
    scheduler = Watched(policy, limits, workers, fairness)
    history = simulate(
        times,
        scheduler,
        Server(4e-3, 1e-5, 0.05, costs=CostSeconds(2e-6, padded=costs.padded)).service(seed),
        sizes=items,
        keys=[random.randrange(keys) for _ in times],
        max_latencies=[random.choice([inf, 0.02, 0.1]) for _ in times],
        claims=claims if tenants else None,
        costs=own_costs,
    )
    assert scheduler.items == 0
    assert set(scheduler.left.values()) <= {1}
    ended = Counter((job.arrived, job.size, job.cost) for job in history.jobs)
    assert ended == Counter(zip(times, items, own_costs, strict=True))
    patient = [job.latency for job in history.jobs if job.deadline == inf]
    few = 12 if tenants else 6
    assert max(patient, default=0.0) <= few * scheduler.most_work + AGEING
