"""Until when the jobs that may still join a batch gain more than the waiting ones lose.

Gains and losses are counted in jobs, not in items: it is jobs that wait.
"""

from math import inf

from adaptive_batching.core.policies.cork.parameters import CorkParameters
from adaptive_batching.core.policy import Situation


def held_until(
    at: Situation, full: float, due: float, parameters: CorkParameters, *, overloaded: bool
) -> float:
    """Until when to hold a batch that is not full (seconds); not later than `now` if not at all.

    If it is later than `due`, jobs that would be late then are to be shed.

    Args:
        at: The situation.
        full: Predicted duration of a full batch (seconds).
        due: When it has to leave for the first deadline (seconds).
        parameters: The ratios that `cork` does not learn.
        overloaded: Whether jobs arrive faster than the workers can run them.
    """
    now = at.now
    # with more time left, even a full batch behind this one would be in time
    if due - now < full and (until := _exchanged_until(at, due)) > now:
        return until
    if now >= due:
        return now
    if overloaded and (until := _filled_until(at, full)) > now:
        return min(until, due)
    if at.idle >= at.workers:
        return min(_gathered_until(at, due, parameters), due)
    return min(_spaced_until(at, full, due, parameters), due)


def _exchanged_until(at: Situation, due: float) -> float:
    """Until when to hold beyond `due`, for the clump after an answer (seconds).

    Callers who missed each other stay in two groups that run in turns, and if `max_latency` is
    shorter than two batches of all, are late or refused in turns for ever. So the few are shed once
    for the many, and come back with them, as far as answers bring jobs at all: the others are lost.
    The clump's own batch has to be in time, and to answer more jobs a second, beyond those lost,
    than that of the few, and than theirs and the clump's behind it.
    """
    now, clump = at.now, at.arrivals.clump
    come, alone = clump.size(now), at.fixed + at.per_item * at.items
    if at.idle > 1 or come <= 0 or alone <= 0:
        return now
    largest = min(at.full, at.limits.max_queue) / at.mean_size
    promise = min(at.limits.max_latency, at.soonest.deadline - at.soonest.arrived)
    fixed, per_item, whole = at.fixed, at.per_item * at.mean_size, clump.whole
    behind = min(at.next_free, now + alone) + fixed + per_item * min(whole, largest)
    late_until = behind + at.margin * alone - promise
    steps = [(instant, whole - come + expected) for instant, expected in clump.steps(now)]
    late = [here for instant, here in [(now, whole - come), *steps] if instant < late_until]
    in_time = min(whole - max(late, default=0.0), largest)
    end, best = now, max(at.requests / alone, (at.requests + in_time) / (behind - now))
    few = max(0.0, at.requests - (whole - come))
    back = few * clump.returning * (1.0 - clump.unanswered)
    lost, with_them = few - back, 1.0 + back / whole
    # The first of the clump has come right after the answer, at the earliest.
    latest = clump.answered_at + promise - at.margin * alone
    for instant, here in steps:
        joined = min(max(here, 0.0) * with_them, largest)
        end_of_batch = instant + fixed + per_item * joined
        if end_of_batch > latest:
            break
        duration = end_of_batch - now
        if instant > due and joined - lost > best * duration:
            end, best = instant, (joined - lost) / duration
    return end


def _filled_until(at: Situation, full: float) -> float:
    """In overload: until when the rest of a full batch is worth waiting for (seconds).

    A worker that waits answers nothing: in its time, the full batch has to answer more. The next
    job comes as after such a silence, those behind it as they come on average.
    """
    now, items, most, newest = at.now, at.items, at.full, at.arrivals.newest
    hazard, changes = at.arrivals.hazard(now, at.rate, at.fixed + at.per_item)
    rest = 1.0 / hazard + (most - items) / (at.rate * at.mean_size) + full
    alone = at.fixed + at.per_item * items
    return min(changes, newest + full) if most * alone > items * rest else now


def _gathered_until(at: Situation, due: float, parameters: CorkParameters) -> float:
    """With all workers idle only the rest of a clump is worth waiting for (seconds)."""
    # What ends these holds is that no job comes any more, which only the timer notices.
    now, arrivals, timer = at.now, at.arrivals, at.timer
    size = min(at.items, at.full)
    alone, single = at.fixed + at.per_item * size, at.fixed + at.per_item
    duration, fan_out = alone / at.idle, arrivals.fan_out
    missed = parameters.clump * duration
    clump_end = _clump_end(at, missed, due)
    if clump_end > now:
        return clump_end
    longest = at.oldest.arrived + parameters.longest_clump * single
    clumped = parameters.in_a_clump * at.rate  # jobs a second, far more than come on average
    if now < longest and fan_out.recognised(clumped):
        if _others_find_idle(at):
            return now
        end = arrivals.newest + fan_out.worth(at.requests, missed, timer)
        return min(max(end, now + timer), longest) if end > now else now
    next_release = parameters.all_idle * duration
    hazard, changes = arrivals.hazard(now, at.rate, single)
    worth = hazard >= clumped and at.requests < hazard * next_release
    if next_release <= timer or not worth:
        return now
    return min(now + next_release, max(changes, now + timer))


def _others_find_idle(at: Situation) -> bool:
    """Whether the rest of a clump finds workers idle as well, so that no job of it waits.

    Not if two such batches in turn would be late: a job that comes while all workers are busy waits
    for one of them.
    """
    others = at.requests * (at.idle_share - 1.0)
    if others <= 0.0:
        return False
    alone = at.fixed + at.per_item * min(at.items, at.full)
    return 2.0 * alone <= at.limits.max_latency and not at.arrivals.fan_out.outgrows(others)


def _spaced_until(at: Situation, full: float, due: float, parameters: CorkParameters) -> float:
    """Until when to hold beside busy workers (seconds); not later than `now` if not at all.

    Holding n jobs for dt costs n * dt; each of the hazard * dt that come in it joins this batch
    instead of waiting for the next release. With several workers idle that is as much nearer.
    """
    now, free, idle = at.now, at.next_free, at.idle
    next_release = (free - now) / idle
    if not at.tick < next_release < inf:
        return now
    # What the others could carry beyond the load: work that grows with the batch no waiting saves.
    spare = 1.0 - idle / at.workers - at.all_rate * at.per_item / at.capacity
    if spare <= 0.0:
        return now
    affordable = 1.0 if spare >= parameters.reserve else spare / parameters.reserve
    even = _evenly_until(at, full, due) if idle == 1 else now
    until = even if even > now else _clump_end(at, affordable * next_release, due)
    fan_out, clumped = at.arrivals.fan_out, parameters.in_a_clump * at.rate
    if until > now or (idle > 1 and fan_out.recognised(clumped) and _others_find_idle(at)):
        return until
    # Workers that bunch are free one right after the other, and then for long none is.
    next_release = max(next_release, at.fixed / at.workers)
    hazard, changes = at.arrivals.hazard(now, at.rate, at.fixed + at.per_item)
    gain = hazard * at.arrivals.clump.unanswered * affordable
    if at.requests >= gain * next_release:
        return now
    flips, soonest = now + (next_release - at.requests / gain) * idle, now + at.tick
    if flips <= soonest:
        return now
    return soonest if changes <= soonest else min(flips, changes)


def _evenly_until(at: Situation, full: float, due: float) -> float:
    """Until when a job that misses the last idle worker's batch is late in the next one (seconds).

    The next batch leaves when a busy worker is free. A job that comes after this instant is in time
    there; those that come before it join this batch. It is `now` if holding gains nothing: a full
    batch is late anyway, the waiting jobs would be late by then, or no other is expected till then.
    """
    patience = at.limits.max_latency - full * (1.0 + at.margin)
    even = at.next_free - patience
    if patience <= 0.0 or not at.now + at.timer < even <= due:
        return at.now
    expected = at.rate * at.arrivals.clump.unanswered * (even - at.now)
    return even if expected >= 1.0 else at.now


def _clump_end(at: Situation, missed: float, due: float) -> float:
    """Where in the clump that follows an answer the gain of holding is greatest (seconds).

    A job that misses the batch waits for `missed` (seconds). A worker that waits answers nothing:
    in its time, one batch has to answer more than two would, of the waiting jobs and of the clump.
    Nor does a batch wait for jobs with which it would be late: its deadline would release it first.
    """
    now, waiting, clump = at.now, at.requests, at.arrivals.clump
    come = clump.size(now)
    if come * missed <= waiting * at.tick:
        return now
    fixed, per_item, items = at.fixed, at.per_item * at.mean_size, at.items / at.mean_size
    largest = at.full / at.mean_size  # all sizes in jobs
    if at.idle_share > 1.0:
        # each idle worker takes its share of the clump, by its speed
        largest = min(largest, (items + come) / at.idle_share)
        if items >= largest:
            return now
    all_come = items + min(come, largest)
    apart = all_come / (2.0 * fixed + per_item * all_come)  # answers a second
    slower = per_item * (1.0 + at.margin)  # by each that joins; `due` reckons with the first
    best, end = 0.0, now
    for instant, expected in clump.steps(now):
        held, joined = instant - now, min(expected, largest - items)
        if instant + slower * (joined - 1.0) > due:
            break
        gain = joined * missed - waiting * held
        together = (items + joined) / (held + fixed + per_item * (items + joined))
        if gain > best and together > apart:
            best, end = gain, instant
    return end
