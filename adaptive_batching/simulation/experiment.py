"""One traffic, one kind of worker, one set of limits: what varies is the policy."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import tee
from time import perf_counter

from adaptive_batching.core import Limits, PolicyLike, Scheduler, make_policy
from adaptive_batching.simulation.arrivals import Times
from adaptive_batching.simulation.closed_loop import ClosedLoop
from adaptive_batching.simulation.engine import drive
from adaptive_batching.simulation.feed import Feed
from adaptive_batching.simulation.history import History
from adaptive_batching.simulation.report import Row, summarize
from adaptive_batching.simulation.servers import Server, UnevenServers
from adaptive_batching.simulation.tally import Tally

Stream = Callable[[], Iterator[tuple[float, int]]]
"""Opens a source of times (seconds) and items anew, for traffic that is too long to be kept."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """What is the same for every policy that is compared.

    Attributes:
        arrivals: When requests come (seconds); or users who send again when answered; or a stream,
            of which no records are kept, so that its percentiles are right to 0.1 % only.
        server: How long a worker takes for a batch, or each of them if they differ.
        limits: Of batches, latency and queue.
        sizes: Items that each request brings; 1 each if None.
        timer_resolution: Of the wake-ups (seconds); 0 for a perfect timer.
        warmup: Seconds at the start that are simulated and not counted.
        seed: Of the workers' jitter and pauses.
    """

    arrivals: Times | ClosedLoop | Stream
    server: Server | UnevenServers
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
            ValueError: No policy has that name, or the workers differ and are not so many.
        """
        decider = make_policy(policy)
        name = policy if isinstance(policy, str) else type(decider).__name__.lower()
        promise = self.limits.max_latency
        tally, history = Tally(promise, self.warmup), History()
        streamed = callable(self.arrivals)
        begun = perf_counter()
        drive(
            self._feed(),
            Scheduler(decider, self.limits, workers),
            self.server.service(self.seed),
            tally if streamed else history,
            timer_resolution=self.timer_resolution,
        )
        elapsed = perf_counter() - begun
        if streamed:
            return tally.row(name, workers, elapsed)
        return summarize(
            history,
            policy=name,
            workers=workers,
            max_latency=promise,
            warmup=self.warmup,
            elapsed=elapsed,
        )

    def _feed(self) -> Feed:
        if not callable(self.arrivals):
            return Feed(self.arrivals, self.sizes)
        times, sizes = tee(self.arrivals())  # they are read in turn, a block at a time
        return Feed((time for time, _ in times), (size for _, size in sizes))
