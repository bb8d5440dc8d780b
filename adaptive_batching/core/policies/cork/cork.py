"""The default policy: release when waiting further isn't worth it, or the deadline says so.

The rule is that of BentoML's CORK dispatcher with its two unknowns, the cost of a batch and the
next arrival, estimated properly, and with one new term: the other workers.
"""

from math import inf

from adaptive_batching.core.job import Job, Reason
from adaptive_batching.core.policies.cork.admission_control import retry_after
from adaptive_batching.core.policies.cork.apparent_tardiness import lookahead
from adaptive_batching.core.policies.cork.economic_batch_size import boarding_limit
from adaptive_batching.core.policies.cork.parameters import CorkParameters
from adaptive_batching.core.policies.cork.safe_size import safe_size
from adaptive_batching.core.policies.cork.worker_choice import leaves_to_faster, wait_for_faster
from adaptive_batching.core.policies.shedding import hopeless, shed_or_probe
from adaptive_batching.core.policy import Decision, Dispatch, Hold, Situation
from adaptive_batching.core.queues.queues import Queues
from adaptive_batching.core.records import BatchRecord


class Cork:
    """Holds a batch as long as the jobs that may still join gain more than the waiting jobs lose.

    With a worker idle, a batch of n items is released when

    * it is full, or so is the queue, or
    * a job would be late otherwise: now + predicted(n) + margin >= its deadline, or
    * waiting isn't worth it: n >= hazard * r1 / idle. Holding n items for dt costs n * dt; each
      arrival in dt (hazard * dt) joins this batch instead of waiting r1, the time until the next
      worker is free, and with several workers idle the next release is r1 / idle away.

    With all workers idle that waits for the rest of a clump only: against independent arrivals it
    releases at once, which for one worker is optimal. With some of several busy it spaces the
    releases out, as bus companies hold buses against bunching (Newell & Potts 1964, Daganzo 2009).
    Right after an answer, callers that send again at once come in a clump, which is looked up in a
    histogram of arrivals since the last answer.

    In overload a batch waits until it is full, or until a job would be late: full batches
    answer most for each second of a worker.

    A worker is let idle only while the others could carry the load. A promise that is shorter than
    two full batches is kept by releases that don't bunch, so holding gains as much more. Where
    batches grow long with their size, a batch is limited to twice its equilibrium too, to spread
    the work.

    Jobs that can't make their deadline even if released now are shed from the head. A prediction
    beyond twice the largest batch seen sheds nothing, and when everything looks hopeless for one
    max_latency, a batch is released all the same as a probe: a wrong fit would confirm itself.

    Args:
        parameters: The numbers that it does not learn; None for those of the default.
    """

    def __init__(self, parameters: CorkParameters | None = None) -> None:
        self.parameters = CorkParameters() if parameters is None else parameters

    def decide(self, situation: Situation) -> Decision:
        """Release, hold or shed; asked while a worker is idle."""
        at, parameters = situation, self.parameters
        if at.peak.limit < at.limits.max_batch_size:
            at = at.up_to(at.peak.limit)
        if at.faster is not None:
            waiting = wait_for_faster(at, at.faster, parameters)
            if waiting is not None:
                return waiting
        now, limit, soonest = at.now, at.limits.max_batch_size, at.soonest
        item_rate, full = at.rate * at.mean_size, at.fixed + at.per_item * limit
        due, overloaded = inf, False
        if soonest.deadline != inf:
            overloaded = item_rate * full > parameters.overloaded * limit * at.capacity
            limit = safe_size(at, soonest, parameters)
            crowded = overloaded or at.items >= parameters.backlog * limit
            margin = _shed_margin(at, full, parameters) if crowded else 0.0
            late = hopeless(at, margin, extrapolation=parameters.extrapolation)
            if late:
                return shed_or_probe(at, late)
            due = _latest_release(at, soonest, parameters)
        filled = at.items >= limit or at.items >= at.limits.max_queue  # no other job may join
        if filled or now >= due:
            return Dispatch(limit, Reason.FULL if filled else Reason.DEADLINE)
        if overloaded and now < at.arrivals.newest + full:  # the rest of a full batch is on its way
            return Hold(due)
        if at.idle >= at.workers:
            worth_until, reason = _clump_worth_until(at, parameters), Reason.IDLE
        else:
            worth_until = _spaced_until(at, item_rate, full, parameters)
            reason = Reason.NOT_WORTH_WAITING
        if worth_until > now:
            return Hold(min(worth_until, due))
        return Dispatch(boarding_limit(at, limit, item_rate, parameters), reason)

    def refuse(self, situation: Situation, job: Job) -> float | None:
        """None if the job can make its deadline, or the seconds after which it could."""
        at = situation
        if at.peak.limit < at.limits.max_batch_size:
            at = at.up_to(at.peak.limit)
        limit = at.limits.max_batch_size
        if at.idle:
            if at.faster is not None and leaves_to_faster(at, job):
                at = at.on(at.faster)
            elif at.items + job.size <= limit * at.idle:
                return None  # whatever is predicted: a wrong fit must meet the facts
        elif at.items < limit:
            size = max(limit, job.size)
            if at.next_free + at.fixed + at.per_item * size <= job.deadline:
                return None  # the common case, asked for every job: even a full batch would do
        if not at.workers or not at.trusted:
            return None  # nothing says when a dead worker will be back
        return retry_after(at, job, self.parameters)

    def lookahead(self, queues: Queues, now: float) -> float:
        """How long a batch may be put off for one of another key that is worth more (seconds)."""
        return lookahead(queues, now, self.parameters)

    def observe(self, batch: BatchRecord) -> None:
        """Nothing: the scheduler's latency model and arrivals have seen it."""


def _shed_margin(at: Situation, full: float, parameters: CorkParameters) -> float:
    """The share by which batches overrun: in overload, a job that is let through must make it."""
    if full <= 0:
        return 0.0
    longest = parameters.longest_margin * at.limits.max_latency / full - 1.0
    return max(0.0, min(at.margin, longest))


def _latest_release(at: Situation, soonest: Job, parameters: CorkParameters) -> float:
    """When the first to expire must leave, with one more job, a slow batch and a late timer."""
    size = min(at.items, at.limits.max_batch_size) + at.mean_size
    slow = (at.fixed + at.per_item * size) * (1.0 + at.margin)
    late = min(at.timers_late, parameters.timers_late * (soonest.deadline - soonest.arrived))
    return soonest.deadline - slow - late


def _spaced_until(
    at: Situation, item_rate: float, full: float, parameters: CorkParameters
) -> float:
    """Until when holding gains more than it costs; not later than `now` if it doesn't.

    Both are counted in jobs: it is they who wait, however many items they bring.
    """
    now, free, idle = at.now, at.next_free, at.idle
    timer = max(at.timer, parameters.shortest_hold * (at.fixed + at.per_item))
    next_release = (free - now) / idle
    if not timer < next_release < inf:
        return now
    hazard, changes = at.arrivals.hazard(now, at.rate, at.fixed + at.per_item)
    # What the others could carry beyond the load: work that grows with the batch no waiting saves.
    spare = 1.0 - idle / at.workers - item_rate * at.per_item / at.capacity
    affordable = min(max(spare / parameters.reserve, 0.0), 1.0)
    clump_end = _clump_end(at, affordable * next_release, timer)
    if clump_end > now:
        return clump_end
    gain = hazard * affordable
    # Where two full batches don't fit into a promise, releases that bunch make jobs late as well.
    gain *= max(1.0, 2.0 * full / at.limits.max_latency)
    if at.requests >= gain * next_release:
        return now
    flips = free - at.requests * idle / gain
    return min(flips, max(changes, now + timer)) if flips > now + timer else now


def _clump_worth_until(at: Situation, parameters: CorkParameters) -> float:
    """With all workers idle nothing is worth waiting for but the rest of a clump."""
    now, arrivals, timer = at.now, at.arrivals, at.timer
    size = min(at.items, at.limits.max_batch_size)
    duration, single = (at.fixed + at.per_item * size) / at.idle, at.fixed + at.per_item
    missed = parameters.clump * duration
    clump_end = _clump_end(at, missed, timer)
    if clump_end > now:
        return clump_end
    longest = at.oldest.arrived + parameters.longest_clump * single
    if now < longest and arrivals.fan_out.recognised(at.rate):
        end = arrivals.newest + arrivals.fan_out.worth(at.requests, missed)
        return min(max(end, now + timer), longest) if end > now else now
    next_release = parameters.all_idle * duration
    if next_release <= timer:
        return now
    hazard, changes = arrivals.hazard(now, at.rate, single)
    if hazard < parameters.in_a_clump * at.rate or at.requests >= hazard * next_release:
        return now
    return min(now + next_release, max(changes, now + timer))


def _clump_end(at: Situation, missed: float, timer: float) -> float:
    """Where in the clump that follows an answer the gain of holding is greatest.

    A job that misses the batch waits for `missed` (seconds). And a worker that waits answers
    nothing: in its time, the batch with those who join has to answer more than two batches would,
    of those who wait and of the clump.
    """
    now, waiting, arrivals, limit = at.now, at.requests, at.arrivals, at.limits.max_batch_size
    come = arrivals.clump_size(now)
    if come * missed <= waiting * timer:
        return now
    fixed, per_item, items = at.fixed, at.per_item * at.mean_size, at.items / at.mean_size
    room = limit / at.mean_size - items  # all sizes in jobs
    come = min(come, limit / at.mean_size)
    apart = (items + come) / (2.0 * fixed + per_item * (items + come))  # answers a second
    best, end = 0.0, now
    # Nothing waits beside an idle worker for longer than a full batch takes (P7).
    longest = max(at.oldest.arrived, arrivals.latest_answer) + at.predict(limit)
    for instant, expected in arrivals.clump(now):
        if instant > longest:
            break
        held, joined = instant - now, min(expected, room)
        gain = joined * missed - waiting * held
        together = (items + joined) / (held + fixed + per_item * (items + joined))
        if gain > best and together > apart:
            best, end = gain, instant
    return end
