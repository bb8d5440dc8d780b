"""Every number behind a decision of `cork` that is not learned."""

from dataclasses import dataclass

from adaptive_batching.core.policies.shedding import EXTRAPOLATION


@dataclass(frozen=True, slots=True)
class CorkParameters:
    """The numbers that `cork` does not learn, each with its unit and where it comes from.

    `simulations/sensitivity.py` halves and doubles each of them and prints what that changes.

    Attributes:
        clump: Of a batch's duration: what a job loses that misses the batch, as it waits for nearly
            all of the next. `simulations/closed_loops.py`.
        longest_clump: Of the duration of a batch of one: how long a hold for the rest of a clump
            may be. Longer ones would synchronise the callers of a closed loop.
        overloaded: Of the capacity: above that share the arrivals exceed it; the rest is noise.
        backlog: Full batches that wait: an overload as well, as a burst is over before its rate is
            known. Ablation: -0.3 points.
        reserve: Of the capacity: what the other workers need beyond the load, so that one may be
            let idle. Ablation: mean latency +134 % in one cell.
        shortest_hold: Of the duration of a batch of one: releases that are nearer to their best
            instant are as good now. Without it eight workers at half load bunch: mean latency +6 %
            (`simulations/spacing.py`).
        longest_margin: Of max_latency: how long a full batch and its margin may be together, so
            that a scattered model does not make each full batch hopeless.
        extrapolation: Times the largest batch seen: a prediction beyond that sheds nothing. It must
            exceed 1, or batches never grow.
        timers_late: Of what the head may wait: how much of it is allowed for late timers, so that
            holds go on after a pause of the process.
        caution: Times the batch size of least mean latency: a batch that is too large costs little,
            one that is too small takes capacity. `simulations/small_batches.py`.
        calm: Of max_latency: if the queue takes longer than that to empty, capacity matters more.
        lookahead: Batches for which a key is put off for one that is worth more; Vepsalainen and
            Morton (1987) found 1.5 to 4.5 best, and it is flat between.
        kept: Of the time left: if the middle key's batch ends later, not all can be in time.
        all_idle: Of a batch's duration: what a job loses that misses the batch while all workers
            are idle; it reproduces the optimal control limit for one worker. Ablation: 64 users who
            think 5 ms get 9 % fewer answers (`simulations/closed_loops.py`).
        in_a_clump: Times the plain rate: below, no hold with all workers idle gains even 1 %.
        long_batches: Of the capacity: the work that grows with batches from which they starve the
            other workers, so that boarding is limited. Ablation: p99 +17 % in
            `simulations/clumps.py`.
        boarding: Times the batch size in equilibrium: where boarding ends then.
        trial: Full batches for which a slow worker is passed over before it is tried with one job.
            `simulations/uneven_workers.py`.
    """

    clump: float = 0.8
    longest_clump: float = 0.3
    overloaded: float = 0.97
    backlog: float = 2.0
    reserve: float = 0.05
    shortest_hold: float = 0.1
    longest_margin: float = 0.8
    extrapolation: float = EXTRAPOLATION
    timers_late: float = 0.25
    caution: float = 2.0
    calm: float = 0.5
    lookahead: float = 2.0
    kept: float = 0.8
    all_idle: float = 0.4
    in_a_clump: float = 2.0
    long_batches: float = 0.4
    boarding: float = 2.0
    trial: float = 64.0
