"""Symphony's deferred batch scheduling: release as late as the promise allows."""

from itertools import islice
from math import inf
from operator import attrgetter

from adaptive_batching.core.job import Reason
from adaptive_batching.core.policies.nexus import outside_window
from adaptive_batching.core.policies.shedding import shed_or_probe
from adaptive_batching.core.policy import Decision, Dispatch, Hold, Situation
from adaptive_batching.core.records import BatchRecord


class Deferred:
    """Release a batch only inside its window [d - L(n + 1), d - L(n)], d its earliest deadline.

    Before that it could still take one more and be in time; after that it would be late. So batches
    are as large and workers as few as the promise allows, and releases space themselves out; the
    price is latency at low load, which sits at the deadline. A job that can't make it
    is dropped as in Nexus. (Symphony, arXiv 2308.07470.) Wake-ups come late, by what is learned of
    them: where batches of all sizes take as long, the window is but an instant. It knows one queue:
    batches of two keys that wait for the same instant meet there, and with one worker idle one of
    them is dropped, at whatever load.

    Without a deadline, and before the first batch has run, it releases at once.
    """

    def decide(self, situation: Situation) -> Decision:
        """Drop, wait for the window, or release."""
        late = outside_window(situation)
        if late:
            return shed_or_probe(situation, late)
        limit = situation.limits.max_batch_size
        if situation.filled:
            return Dispatch(limit, Reason.FULL)
        first = min(islice(situation.jobs, limit), key=attrgetter("deadline"))
        if first.deadline == inf or not situation.batches:
            return Dispatch(limit, Reason.IDLE)
        lateness = situation.late_for(first) + situation.timer
        opens = first.deadline - situation.predict(situation.items + 1) - lateness
        open_now = situation.now + situation.timer >= opens  # shorter holds are not worth arming
        return Dispatch(limit, Reason.DEADLINE) if open_now else Hold(opens)

    def observe(self, batch: BatchRecord) -> None:
        """Learn nothing."""
