"""When are requests refused that can't be answered?

Covers: the goodput, and the share of the requests without an answer that were refused on arrival,
of `cork` that expects an overload to end at once (`lasting` 0), and to go on for twice (default) or
eight times as long as it has lasted.

One worker, batches of 5 ms + 0.05 ms * n with a jitter of 0.1, at most 64 items; lasting overload
(Poisson traffic of twice the capacity), and peaks of twenty times the mean rate, 2 ms every 41 ms.

Answer: the goodput is nearly the same. A job that is shed has waited in vain for most of its
`max_latency`. Where that is long, an overload that has lasted is taken to go on: in lasting
overload 19 of 20 are refused at once instead of less than half. In peaks that costs up to a
point, for the last jobs of a peak are refused as well.
"""

from itertools import product

from drawn import drawn

from adaptive_batching.core import JobOutcome, Limits
from adaptive_batching.core.policies.cork.cork import Cork
from adaptive_batching.core.policies.cork.parameters import CorkParameters
from adaptive_batching.simulation import Experiment, History, Server, mmpp, poisson

FULL = 8.2e-3  # seconds that a full batch takes
LASTING = (0.0, 2.0, 8.0)
SECONDS, WARMUP = 4.0, 1.0


def row(kind: str, max_latency: float) -> str:
    """One row of the table; `max_latency` counts full batches."""
    if kind == "lasting":
        arrivals = poisson(2.0 * 64 / FULL, SECONDS, seed=1)
    else:
        rate = 0.9 * 64 / FULL
        sojourns = (4.75 * FULL, FULL / 4)
        arrivals = mmpp(rate, SECONDS, seed=1, rates=(0.0, 20 * rate), sojourns=sojourns)
    server = Server(5e-3, 0.05e-3, jitter=0.1)
    experiment = Experiment(arrivals, server, Limits(64, max_latency * FULL), seed=1)
    cells = []
    for lasting in LASTING:
        history = History()
        experiment.play(Cork(CorkParameters(lasting=lasting)), 1, history)
        jobs = [job for job in history.jobs if job.arrived >= WARMUP]
        unanswered = [job for job in jobs if job.outcome is not JobOutcome.DONE]
        refused = sum(job.finished == job.arrived for job in unanswered) / len(unanswered)
        cells.append(f"{sum(job.in_time for job in jobs) / len(jobs):6.1%} {refused:8.1%}")
    return f"{kind:7} {max_latency:11g} | {' | '.join(cells)}"


def main() -> None:
    """Print the table."""
    heads = " | ".join(f"{f'x {lasting:g}':>6} {'refused':>8}" for lasting in LASTING)
    print(f"traffic max_latency | {heads}")
    for condition in drawn(list(product(("lasting", "peaks"), (1.5, 3.0, 10.0)))):
        print(row(*condition))


if __name__ == "__main__":
    main()
