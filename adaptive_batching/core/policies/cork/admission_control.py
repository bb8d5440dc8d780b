"""Which job is refused when it arrives, and when to come again."""

from collections.abc import Iterator, Sequence
from math import inf
from typing import NamedTuple

from adaptive_batching.core.estimators.delays import LARGEST_SHARE
from adaptive_batching.core.estimators.evidence import SPREAD_FLOOR, TRUSTED_AFTER
from adaptive_batching.core.job import Batch, Job
from adaptive_batching.core.policies.cork.parameters import CorkParameters
from adaptive_batching.core.policies.cork.worker_choice import leaves_to_faster
from adaptive_batching.core.policies.shedding import doubtful, probed_after
from adaptive_batching.core.policy import Situation

_ROUNDING = 1e-15  # relative; more than a sum of instants is rounded by


def retry_after(at: Situation, job: Job, parameters: CorkParameters) -> float | None:
    """Seconds after which the job would be let in if no other job came; None if it is let in now.

    It is let in while an idle worker has room for it, whatever is predicted: a wrong fit must meet
    the facts. Under load no worker is idle when it comes: then it may be let in as a probe. While
    full batches wait beside an idle worker the driver's decision is late, and those that wait will
    be the first to expire.
    """
    if at.idle:
        if at.faster is not None and leaves_to_faster(at, job):
            at = at.on(at.faster)
        elif at.items + job.size <= at.limits.max_batch_size * at.idle or _undecided(at):
            return None
    if not at.workers or not at.trusted:
        return None  # nothing says when a dead worker will be back
    if _may_probe(at, job):
        return None
    opens = _opens_after(at, job, parameters)
    return None if opens is None else max(opens, probed_after(at, job))


def overrun(at: Situation, full: float, promise: float, parameters: CorkParameters) -> float:
    """The share by which full batches may overrun in overload, where jobs are to be in time.

    It is the allowance, but a full batch must leave jobs a part of their promise.

    Args:
        at: The situation.
        full: Predicted seconds of a full batch.
        promise: Seconds from the arrival of a job to its deadline, or `max_latency`.
        parameters: What `cork` does not learn.
    """
    longest = (1.0 - LARGEST_SHARE) * promise / full - 1.0
    return max(0.0, min(allowance(at.margin, parameters), longest))


def allowance(margin: float, parameters: CorkParameters) -> float:
    """The share by which a batch may overrun: it is never known better than its least spread."""
    return parameters.slack * max(margin, SPREAD_FLOOR)


def _undecided(at: Situation) -> bool:
    """Whether jobs have waited beside an idle worker, and none faster, for as long as one takes."""
    return at.faster is None and at.now - at.oldest.arrived >= at.predict(1)


def _may_probe(at: Situation, job: Job) -> bool:
    """Whether a job may wait for a worker, as a probe, and one may be free before its deadline.

    Where no worker is idle a probe displaces other jobs, so that the probes of all keys share a
    fiftieth of the workers' time. The first of a key may wait even if that is used up.
    """
    if at.items or (at.now < at.next_probe and not at.untried):
        return False
    return min(_ends_told(at), default=at.now) < job.deadline and doubtful(at, job)


def _opens_after(at: Situation, job: Job, parameters: CorkParameters) -> float | None:
    """Seconds until the job might be answered in time; None if it might be now.

    It might be in a full batch, if the jobs ahead leave room in it. Or it might be in a smaller one
    that leaves later: the jobs ahead are late for it, so that it is small unless new jobs keep
    coming. An overload is expected to go on for `lasting` times as long as it has lasted.
    """
    now = at.now
    # an idle worker slower than the best is not given these jobs
    idle = [now] * (at.idle if at.faster is None else 0)
    longest = min(at.limits.max_batch_size, parameters.extrapolation * at.largest)
    full = at.predict(longest)
    cycle = full * (len(idle) + len(at.running)) / at.capacity
    if not cycle:
        return None  # a coarse clock says of short batches that they take no time
    releases = _Releases(idle + [_free(batch, now) for batch in at.running], cycle)
    others = _others_first(at, job, parameters) if at.others else 0.0
    latest_alone = job.deadline - others - at.predict_joined(job, job.size)
    longer = 1.0 + overrun(at, full, job.deadline - job.arrived, parameters)
    latest_full = job.deadline - others - longer * at.predict_joined(job, max(longest, job.size))
    last = releases.last(latest_alone)
    # without overload a job also waits for one batch
    age = now - at.oldest.arrived - full if at.requests else -inf
    if last > latest_full and last - now >= parameters.lasting * max(0.0, age):
        return None
    if _has_room(at, job, releases, latest_full, others + full):
        return None
    named = _Releases(idle + _ends_told(at), cycle)
    opens = named.next(latest_alone) - latest_alone
    if latest_alone - now < parameters.lasting * max(0.0, age + opens):
        opens = named.next(latest_full) - latest_full
    overdue = min(named.free_at) > min(releases.free_at)
    return max(opens, min(named.free_at) - now) if overdue else opens


def _ends_told(at: Situation) -> list[float]:
    """When the batches that run are expected to end, as clients are told (seconds)."""
    shortest = at.predict(1)
    return [batch.expected_finish(at.now, shortest) for batch in at.running]


def _free(batch: Batch, now: float) -> float:
    """When the worker of a batch is free (seconds).

    A pause of the machine is soon over. A batch that has run for more than twice its predicted
    duration may hang: it is expected to run on for a fifth of the time by which it is beyond that.
    So a job is refused once the batch has outlasted five times what is left to the job: as many
    batches are evidence enough to refuse work.
    """
    beyond = now - batch.predicted_finish - batch.predicted
    return max(batch.predicted_finish, now, now + beyond / TRUSTED_AFTER)


def _has_room(
    at: Situation, job: Job, releases: "_Releases", latest: float, duration: float
) -> bool:
    """Whether the jobs ahead leave room for one in a full batch that is in time for it.

    A batch gives up jobs that would be late in it where as many wait behind them. So all batches
    are full only if, from each on, the jobs that would not be late in it fill that and the rest.

    Args:
        at: The situation.
        job: The one that has come.
        releases: Of full batches.
        latest: When such a batch may leave at the latest (seconds).
        duration: Seconds from the release of a batch of the jobs ahead to its end.
    """
    limit, jobs = at.limits.max_batch_size, at.jobs
    batches = releases.number(latest)
    if not batches:
        return False
    ahead, own = jobs.ahead_of(job), min(job.size, limit)
    if ahead + own <= batches * limit:
        return True
    for rest, release in releases.from_the_last(latest):  # jobs that expire later are behind it
        if jobs.unexpired(ahead, min(release + duration, job.deadline)) + own <= rest * limit:
            return True
    return False


def _others_first(at: Situation, job: Job, parameters: CorkParameters) -> float:
    """Seconds for which the batches of other keys go before that of a job, as far as they will.

    Where more jobs are to join its batch, that is soon worth more, and none is counted. Of the
    others, which wait for this as well, a part is late before its turn has come.
    """
    until = min(job.deadline, at.soonest.deadline) if at.requests else job.deadline
    rate = at.rate * at.arrivals.offered_ratio
    if at.requests + 1 + rate * (until - at.now) > parameters.few:
        return 0.0
    return parameters.in_turn * at.others / at.capacity


class _Releases(NamedTuple):
    """When workers can be given full batches, one after another."""

    free_at: Sequence[float]
    """When each worker is free (seconds)."""
    cycle: float
    """Seconds that a full batch takes on each."""

    def number(self, until: float) -> float:
        """The number of releases until an instant."""
        return sum([number for _, number in self._of_workers(until)])

    def last(self, until: float) -> float:
        """The last release until an instant (seconds); `-inf` if there is none."""
        return max([last for last, _ in self._of_workers(until)], default=-inf)

    def next(self, instant: float) -> float:
        """The first release after an instant (seconds)."""
        cycle = self.cycle
        nexts = [
            max(free, free + (instant - free) // cycle * cycle + cycle) for free in self.free_at
        ]
        # rounded, a release at the instant itself may come out beside it
        after = instant * (1.0 + _ROUNDING)
        return min([each if each > after else each + cycle for each in nexts])

    def from_the_last(self, until: float) -> Iterator[tuple[float, float]]:
        """Releases from the last one until an instant back: how many remain from each on, and when.

        Only the first, second, fourth and so on, which show nearly as much as all.
        """
        of_workers = sorted(self._of_workers(until), reverse=True)
        first, back = min(self.free_at), 1
        while True:
            rounds, place = divmod(back - 1, len(of_workers))
            release = of_workers[place][0] - rounds * self.cycle
            if release < first:
                return
            # a worker that is free only later has fewer
            remaining = [
                min(number, rounds + (each <= place)) for each, (_, number) in enumerate(of_workers)
            ]
            yield sum(remaining), release
            back *= 2

    def _of_workers(self, until: float) -> list[tuple[float, float]]:
        """Each worker's last release until an instant, and how many it has until then."""
        rounds = [(free, (until - free) // self.cycle) for free in self.free_at if free <= until]
        return [(free + number * self.cycle, number + 1.0) for free, number in rounds]
