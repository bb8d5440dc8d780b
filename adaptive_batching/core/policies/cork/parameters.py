"""Every number behind a decision of `cork` that is not learned."""

from typing import NamedTuple

from adaptive_batching.core.estimators.evidence import EXTRAPOLATION


class CorkParameters(NamedTuple):
    """The numbers that `cork` does not learn: all are ratios, none is a time.

    `simulations/sensitivity.py` halves and doubles each; points are percentage points of goodput.

    Attributes:
        clump: Part of a batch's duration that a job loses if it misses the batch with its clump:
            it waits for most of the next (`simulations/closed_loops.py`).
        longest_clump: Longest hold for the rest of a clump, in durations of a batch of one. Longer
            holds synchronise a closed loop: 64 users that think for 20 ms got 8.5 ms, not 7.0.
        overloaded: Part of the capacity above which arrivals overload it. At 1: 3 points less with
            one of four workers three times as slow.
        backlog: Full batches that wait in overload, before its rate is known. Without it: 1.5
            points less in that case, 1 with four workers at 110 %.
        reserve: Part of the capacity that the busy workers must have to spare for one to be left
            idle. Without it: mean latency +134 % with items that cost much.
        lasting: For how many times as long as it has lasted an overload is expected to go on. At
            0, within ten batches, 58 % of the jobs that can't be answered wait in vain, not 4 %
            (`simulations/refusals.py`).
        few: Jobs of a batch, with those that are still to join it, up to which batches of other
            keys count that go first. At 0: 25 % fewer answers in a closed loop of 64 keys.
        in_turn: Part of those batches that do leave first, and whose jobs are not late before.
            At 0.5: 0.06 points less in open traffic with keys (`simulations/search.py --seed 2`).
        slack: Multiple of the margin by which full batches may overrun in overload: a younger job
            takes the place of one that is shed. At 1: 0.4 points less at 120 % of the capacity.
        extrapolation: Multiple of the largest batch seen, beyond which predictions shed nothing.
            At 1 no batch ever grows: up to 95 points less (`simulations/sensitivity.py`).
        caution: Multiple of the batch size of least mean latency: too small costs more than too
            large (`simulations/small_batches.py`).
        lookahead: Batches for which a key is put off for one that is worth more: 1.5 to 4.5 by
            Vepsalainen and Morton, 1987 (`simulations/keys.py`).
        all_idle: Part of a batch's duration that a job loses if it misses the batch with all
            workers idle: the optimal control limit of one worker. Without it: 8-13 % fewer answers
            in closed loops.
        in_a_clump: Multiple of the plain rate above which arrivals are a clump. Without it: 3 %
            fewer answers in a closed loop.
        long_batches: Part of the capacity that is work which grows with the batch, beyond which
            long batches starve the other workers. At 0: p99 +70 % in clumps.
    """

    clump: float = 0.8
    longest_clump: float = 0.3
    overloaded: float = 0.97
    backlog: float = 2.0
    reserve: float = 0.05
    lasting: float = 2.0
    few: float = 3.0
    in_turn: float = 0.35
    slack: float = 1.5
    extrapolation: float = EXTRAPOLATION
    caution: float = 2.0
    lookahead: float = 2.0
    all_idle: float = 0.4
    in_a_clump: float = 2.0
    long_batches: float = 0.4
