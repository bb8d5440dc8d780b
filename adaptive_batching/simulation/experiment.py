"""One traffic, one kind of worker, one set of limits: what varies is the policy."""

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

from adaptive_batching.core import Limits, PolicyLike, Scheduler, make_policy
from adaptive_batching.simulation.arrivals import Times
from adaptive_batching.simulation.engine import simulate
from adaptive_batching.simulation.report import Row, summarize
from adaptive_batching.simulation.servers import Server


@dataclass(frozen=True, slots=True)
class Experiment:
    """What is the same for every policy that is compared.

    Attributes:
        arrivals: When requests come (seconds).
        server: How long a worker takes for a batch.
        limits: Of batches, latency and queue.
        sizes: Items that each request brings; 1 each if None.
        timer_resolution: Of the wake-ups (seconds); 0 for a perfect timer.
        warmup: Seconds at the start that are simulated and not counted.
        seed: Of the workers' jitter and pauses.
    """

    arrivals: Times
    server: Server
    limits: Limits
    sizes: Sequence[int] | None = None
    timer_resolution: float = 0.0
    warmup: float = 0.0
    seed: int = 0

    def run(self, policy: PolicyLike, workers: int = 1) -> Row:
        """Simulate one policy from the beginning.

        Args:
            policy: Its name, its class or factory, or a fresh one.
            workers: Batches that may run at the same time.

        Raises:
            ValueError: No policy has that name.
        """
        decider = make_policy(policy)
        scheduler = Scheduler(decider, self.limits, workers)
        begun = perf_counter()
        history = simulate(
            self.arrivals,
            scheduler,
            self.server.service(self.seed),
            sizes=self.sizes,
            timer_resolution=self.timer_resolution,
        )
        return summarize(
            history,
            policy=policy if isinstance(policy, str) else type(decider).__name__.lower(),
            workers=workers,
            max_latency=self.limits.max_latency,
            warmup=self.warmup,
            elapsed=perf_counter() - begun,
        )
