"""Every number behind a decision of `cork` that is not learned."""

from dataclasses import dataclass

from adaptive_batching.core.policies.shedding import EXTRAPOLATION


@dataclass(frozen=True, slots=True)
class CorkParameters:
    """The numbers that `cork` does not learn: all are ratios, none is a time.

    What each of them buys stands in `docs/explanation/cork.md`; `simulations/sensitivity.py` halves
    and doubles them.

    Attributes:
        clump: Of a batch's duration: what a job loses that misses the batch with a clump.
        longest_clump: Of the duration of a batch of one: the longest hold for the rest of a clump.
        overloaded: Of the capacity: arrivals above that share exceed it; the rest is noise.
        backlog: Full batches that wait: an overload as well, before its rate is known.
        reserve: Of the capacity: what the busy workers must have to spare, for one to be let idle.
        shortest_hold: Of the duration of a batch of one: shorter holds beside busy workers gain
            nothing.
        extrapolation: Times the largest batch seen: a prediction beyond that sheds nothing.
        caution: Times the batch size of least mean latency: too small costs more than too large.
        calm: Of max_latency: batches stay whole if the queue takes longer than that to empty.
        lookahead: Batches for which a key is put off for one that is worth more.
        all_idle: Of a batch's duration: what a job loses that misses the batch, all workers idle.
        in_a_clump: Times the plain rate: arrivals that follow each other sooner are a clump.
        long_batches: Of the capacity: work that grows with the batch, beyond which long batches
            starve the other workers.
        trial: Full batches for which a slow worker is passed over before it is tried with one job.
    """

    clump: float = 0.8
    longest_clump: float = 0.3
    overloaded: float = 0.97
    backlog: float = 2.0
    reserve: float = 0.05
    shortest_hold: float = 0.1
    extrapolation: float = EXTRAPOLATION
    caution: float = 2.0
    calm: float = 0.5
    lookahead: float = 2.0
    all_idle: float = 0.4
    in_a_clump: float = 2.0
    long_batches: float = 0.4
    trial: float = 64.0
