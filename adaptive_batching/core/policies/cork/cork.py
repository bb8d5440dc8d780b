"""The default policy: release when waiting further isn't worth it, or the deadline says so.

The rule is that of BentoML's CORK dispatcher with its two unknowns, the cost of a batch and the
next arrival, estimated properly, and with one new term: the other workers.
"""

from math import inf
from typing import NamedTuple

from adaptive_batching.core.job import Job, Reason
from adaptive_batching.core.policies.cork.admission_control import retry_after
from adaptive_batching.core.policies.cork.apparent_tardiness import lookahead
from adaptive_batching.core.policies.cork.economic_batch_size import economical_size, equilibrium
from adaptive_batching.core.policies.cork.worker_choice import leaves_to_faster, wait_for_faster
from adaptive_batching.core.policies.shedding import EXTRAPOLATION, hopeless, shed_or_probe
from adaptive_batching.core.policy import (
    Decision,
    Dispatch,
    Hold,
    QueueView,
)
from adaptive_batching.core.queues import Queues
from adaptive_batching.core.records import BatchRecord

_ALL_IDLE = 0.4  # of a batch's duration: reproduces the optimal control limit for one worker
_IN_A_CLUMP = 2.0  # times the plain rate; below, no hold with all workers idle gains even 1 %
_CLUMP = 0.8  # of a batch's duration: who misses the batch waits for nearly all of it
_LONGEST_CLUMP = 0.3  # of a batch of one; longer holds would knit the callers of a loop together
_TIMER = 0.5e-3  # seconds; event-loop timers are no finer, so shorter holds are not worth arming
_OVERLOADED = 0.97  # of capacity; the rest is noise in the estimate
_BACKLOG = 2.0  # full batches; a burst is over before its rate is known, but not before this
_RESERVE = 0.05  # of capacity: what the others need beyond the load, to be let idle for
_LONG_BATCHES = 0.4  # phi from which they starve the other workers, so that boarding is limited
_BOARDING = 2.0  # times the batch size in equilibrium
_TIGHT = 2.0  # full batches: a promise shorter than that is broken where releases bunch
_WARY = 2.0  # times the plain hold, where bunching costs answers and not only time
_MOST_LATE = 0.25  # of what the head waits: after a pause of the process, who never holds for fear
# of late timers would never see that they are in time again
_LONGEST_MARGIN = 0.8  # of max_latency: a margin may not make a full batch hopeless


class _Situation(NamedTuple):
    """What is known of a queue when a batch could leave, each read once.

    Attributes:
        queue: The queue.
        now: The present (seconds).
        head: The job that leaves first.
        size: Items of the batch that could leave.
        waiting: Jobs in the queue.
        rate: Jobs that arrive in a second.
        idle: Workers that could take a batch now.
        workers: Workers that are alive.
    """

    queue: QueueView
    now: float
    head: Job
    size: int
    waiting: int
    rate: float
    idle: int
    workers: int


class Cork:
    """Holds a batch exactly as long as those who may still join gain more than those who wait lose.

    With a worker idle, a batch of n items is released when

    * it is full, or so is the queue, or
    * its oldest job would be late otherwise: now + predicted(n) + margin >= deadline, or
    * waiting isn't worth it: n >= hazard * r1 / idle. Holding n items for dt costs n * dt; each
      arrival in dt (hazard * dt) joins this batch instead of waiting r1, the time until the next
      worker is free, and with several workers idle the next release is r1 / idle away.

    With all workers idle that waits for the rest of a clump only: against independent arrivals it
    releases at once, which for one worker is optimal. With some of several busy it spaces the
    releases out, as bus companies hold buses against bunching (Newell & Potts 1964, Daganzo 2009),
    and twice as carefully if the promise is too tight to bear two at once.
    Right after an answer, callers that send again at once come in a clump, which is looked up in a
    histogram of arrivals since the last answer.

    A worker is let idle only while the others could carry the load. Where batches grow long with
    their size (`phi`), a batch is limited to twice its equilibrium too, to spread the work.

    Jobs that can't make their deadline even if released now are shed from the head. A prediction
    beyond twice the largest batch seen sheds nothing, and when everything looks hopeless for one
    max_latency, a batch is released all the same as a probe: a wrong fit would confirm itself.
    """

    def decide(self, queue: QueueView, now: float) -> Decision:
        """Release, hold or shed; asked while a worker is idle."""
        if queue.worker is not None:
            waiting = wait_for_faster(queue, now)
            if waiting is not None:
                return waiting
        arrivals, items = queue.arrivals, queue.items
        limit = queue.limits.max_batch_size
        size = min(items, limit)
        rate = arrivals.rate(now, queue.window)
        item_rate = rate * arrivals.mean_size
        full = queue.latency.predict(limit)
        overloaded = item_rate * full > _OVERLOADED * limit * queue.capacity
        due = inf
        soonest = queue.soonest
        if soonest.deadline != inf:
            limit = _affordable(queue, limit, now)
            crowded = overloaded or items >= _BACKLOG * limit
            late = hopeless(queue, _shed_margin(queue) if crowded else 0.0, now)
            if late:
                return shed_or_probe(queue, late, now)
            due = _latest_release(queue, size)
            if not overloaded:  # there a late timer costs the head alone, and others fill its place
                due -= min(queue.timers_late, _MOST_LATE * (soonest.deadline - soonest.arrived))
        if items >= limit or items >= queue.limits.max_queue:  # nobody else may join
            return Dispatch(limit, Reason.FULL)
        if now >= due:
            return Dispatch(limit, Reason.DEADLINE)
        over = arrivals.newest + full  # the flood is, however high the rate still seems
        idle, workers = queue.idle, queue.workers
        at = _Situation(queue, now, queue.head, size, queue.requests, rate, idle, workers)
        if overloaded and workers > 1 and now < over:
            rest_comes = now + (limit - size) / item_rate  # of a full batch, which is on its way
            worth_until = min(rest_comes, over)
        else:
            worth_until = _clump_worth_until(at) if idle >= workers else _spaced_until(at)
        if worth_until <= now:
            reason = Reason.IDLE if idle >= workers else Reason.NOT_WORTH_WAITING
            return Dispatch(_boarding_limit(at, limit, item_rate), reason)
        return Hold(min(worth_until, due))

    def refuse(self, queue: QueueView, job: Job, now: float) -> float | None:
        """None if the job can make its deadline, or the seconds after which it could."""
        latency = queue.latency
        limit = queue.limits.max_batch_size
        if queue.idle:
            left = queue.worker is not None and leaves_to_faster(queue, job, now)
            if not left and queue.items + job.size <= limit * queue.idle:
                return None  # whatever is predicted: a wrong fit must meet the facts
        elif queue.items < limit and queue.next_free(now) + latency.predict(limit) <= job.deadline:
            return None  # the common case, asked for every job: even a full batch would do
        if not queue.workers or not latency.trusted:
            return None  # when a dead worker will be back, nobody knows
        return retry_after(queue, job, now)

    def lookahead(self, queues: Queues, now: float) -> float:
        """How long a batch may be put off for one of another key that is worth more (seconds)."""
        return lookahead(queues, now)

    def observe(self, batch: BatchRecord) -> None:
        """Nothing: the scheduler's latency model and arrivals have seen it."""


def _shed_margin(queue: QueueView) -> float:
    """In overload, who is let through must make it; the share by which batches overrun."""
    full = queue.latency.predict(queue.limits.max_batch_size)
    if full <= 0:
        return 0.0
    longest = _LONGEST_MARGIN * queue.limits.max_latency / full - 1.0
    return max(0.0, min(queue.latency.margin, longest))


def _affordable(queue: QueueView, limit: int, now: float) -> int:
    """The batch that keeps the head's deadline even at the worst slope that is still possible.

    Only beyond the sizes that were tried: up to those, jobs are shed instead, because small batches
    for late jobs waste capacity.
    """
    latency = queue.latency
    tried = max(1, round(EXTRAPOLATION * latency.largest))
    if not latency.trusted:
        tried = min(tried, _ever_in_time(queue, limit))
    if not latency.per_item_at_most or limit <= tried:
        return limit
    size, duration = latency.largest, latency.predict(latency.largest)
    spare = queue.soonest.deadline - now - duration
    in_time = size + spare / latency.per_item_at_most
    return max(tried, queue.head.size, int(min(in_time, limit)))


def _ever_in_time(queue: QueueView, limit: int) -> int:
    """The largest batch that could be in time for one who has just come.

    Nobody is shed before the fit is trusted, and batches that double until then may take minutes.
    """
    fixed, per_item = queue.latency.fixed, queue.latency.per_item
    patience = queue.head.deadline - queue.head.arrived
    if fixed + per_item * limit <= patience or not per_item:
        return limit
    return max(1, int((patience - fixed) / per_item))


def _latest_release(queue: QueueView, size: int) -> float:
    """When the first to expire must leave to be in time, with one more job and a slow batch."""
    slow = queue.latency.predict(size + queue.arrivals.mean_size) * (1.0 + queue.latency.margin)
    return queue.soonest.deadline - slow


def _spaced_until(at: _Situation) -> float:
    """Until when holding gains more than it costs; not later than `now` if it doesn't.

    Both are counted in jobs: it is they who wait, however many items they bring.
    """
    queue, now, idle, waiting = at.queue, at.now, at.idle, at.waiting
    free = queue.next_expected(now)
    next_release = (free - now) / idle
    if not _TIMER < next_release < inf:
        return now
    hazard, changes = queue.arrivals.hazard(now, at.rate, queue.latency.predict(1))
    phi = at.rate * queue.arrivals.mean_size * queue.latency.per_item / queue.capacity
    gain = hazard * _affordable_hold(phi, idle / at.workers)
    if _tight(queue):
        gain *= _WARY
    if waiting >= gain * next_release:
        return now
    flips = free - waiting * idle / gain
    return min(flips, max(changes, now + _TIMER)) if flips > now + _TIMER else now


def _clump_worth_until(at: _Situation) -> float:
    """With all workers idle nothing is worth waiting for but the rest of a clump."""
    latency, arrivals = at.queue.latency, at.queue.arrivals
    now, waiting = at.now, at.waiting
    duration = latency.predict(at.size) / at.idle
    clump_end = _clump_end(at, _CLUMP * duration)
    if clump_end > now:
        return clump_end
    single = latency.predict(1)
    longest = at.queue.oldest.arrived + _LONGEST_CLUMP * single
    if now < longest and arrivals.fan_out.recognised(at.rate):
        end = arrivals.newest + arrivals.fan_out.worth(waiting, _CLUMP * duration)
        return min(max(end, now + _TIMER), longest) if end > now else now
    next_release = _ALL_IDLE * duration
    if next_release <= _TIMER:
        return now
    hazard, changes = arrivals.hazard(now, at.rate, single)
    if hazard < _IN_A_CLUMP * at.rate or waiting >= hazard * next_release:
        return now
    return min(now + next_release, max(changes, now + _TIMER))


def _affordable_hold(phi: float, held: float) -> float:
    """1 while the other workers could carry the load alone, 0 when they could not.

    Args:
        phi: Share of a cycle that grows with the batch: work that no waiting saves.
        held: Share of the workers that stay idle.
    """
    return min(max((1.0 - held - phi) / _RESERVE, 0.0), 1.0)


def _clump_end(at: _Situation, next_release: float) -> float:
    """Where in the clump that follows an answer the gain of holding is greatest."""
    now, waiting, arrivals = at.now, at.waiting, at.queue.arrivals
    if arrivals.clump_size(now) * next_release <= waiting * _TIMER:
        return now
    best, end = 0.0, now
    # Nothing waits beside an idle worker for longer than a full batch takes (P7).
    full = at.queue.latency.predict(at.queue.limits.max_batch_size)
    longest = max(at.queue.oldest.arrived, arrivals.latest_answer) + full
    for instant, expected in arrivals.clump(now):
        if instant > longest:
            break
        gain = expected * next_release - waiting * (instant - now)
        if gain > best:
            best, end = gain, instant
    return end


def _tight(queue: QueueView) -> bool:
    """Whether two workers at once, instead of in turn, would make jobs late."""
    full = queue.latency.predict(queue.limits.max_batch_size)
    return queue.limits.max_latency < _TIGHT * full


def _boarding_limit(at: _Situation, limit: int, item_rate: float) -> int:
    """A full batch; less where its first wait long for its last, or others would starve."""
    if at.waiting == 1:
        return limit
    queue = at.queue
    economical = economical_size(queue, item_rate)
    if economical < limit:
        limit = max(1, round(economical), at.head.size)
    if at.workers == 1 or item_rate * queue.latency.per_item <= _LONG_BATCHES * queue.capacity:
        return limit
    lasting = min(_BOARDING * equilibrium(queue, item_rate), limit)
    boarding = max(1, round(lasting), at.head.size)
    return limit if queue.items > 2 * boarding else min(limit, boarding)
