"""What is refused beside a worker that pauses or hangs?

Covers: the goodput of `cork` and of `greedy`, which refuses none, and what share of the jobs that
`cork` did not answer was refused on arrival.

One worker, batches of 5 ms + 0.05 ms * n with a jitter of 0.1, at most 64 items; Poisson traffic of
30 or 77 % of the capacity. The worker stands still for 20 ms to 2 s, a sixth of the time.

Answer: a job is refused once the batch has run, beyond twice its predicted duration, for five times
as long as the job can wait. So beside short pauses hardly any is refused, and in long hangs most of
those that can't be answered are. That costs about a point: jobs that come just before the end of a
pause of more than five times `max_latency`.
"""

from itertools import product

from drawn import drawn

from adaptive_batching.core import JobOutcome, Limits
from adaptive_batching.simulation import Experiment, History, Pauses, Server, poisson

FIXED, PER_ITEM = 5e-3, 0.05e-3  # seconds
CAPACITY = 64 / 8.2e-3  # requests a second


def row(pause: float, max_latency: float, load: float) -> str:
    """One row of the table; seconds, and a share of the capacity."""
    every = 5 * pause
    arrivals = poisson(load * CAPACITY, 20 * pause + 1.0, seed=1)
    server = Server(FIXED, PER_ITEM, jitter=0.1, conditions=(Pauses(pause, every),))
    experiment = Experiment(arrivals, server, Limits(64, max_latency), seed=1)
    history = History()
    experiment.play("cork", 1, history)
    jobs = history.jobs
    goodput = sum(job.in_time for job in jobs) / len(jobs)
    unanswered = [job for job in jobs if job.outcome is not JobOutcome.DONE]
    refused = sum(job.finished == job.arrived for job in unanswered) / max(1, len(unanswered))
    cells = f"{goodput:6.1%} {experiment.run('greedy').goodput:6.1%} {refused:8.1%}"
    return f"{pause:5g} {max_latency:11g} {load:4.0%} | {cells}"


def main() -> None:
    """Print the table."""
    print("pause max_latency load |   cork greedy  refused")
    for condition in drawn(list(product((0.02, 0.1, 0.5, 2.0), (0.025, 0.1), (0.3, 0.77)))):
        print(row(*condition))


if __name__ == "__main__":
    main()
