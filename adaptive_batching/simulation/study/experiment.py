"""One traffic, one kind of worker, one set of limits: what varies is the policy."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, repeat
from time import perf_counter
from typing import Self, TypeVar

import numpy as np
import numpy.typing as npt

from adaptive_batching.core import Fairness, Limits, PolicyLike, make_policy
from adaptive_batching.simulation.clients.closed_loop import ClosedLoop
from adaptive_batching.simulation.clients.retries import Retries
from adaptive_batching.simulation.clients.tenants import Claim
from adaptive_batching.simulation.kernel.engine import drive
from adaptive_batching.simulation.kernel.fleet import ONE_DISPATCHER, Fleet
from adaptive_batching.simulation.kernel.history import Collector, History
from adaptive_batching.simulation.servers.servers import Server, UnevenServers
from adaptive_batching.simulation.study.report import Row, summarize
from adaptive_batching.simulation.study.tally import Tally
from adaptive_batching.simulation.traffic.arrival_stream import ArrivalStream
from adaptive_batching.simulation.traffic.arrivals import Times
from adaptive_batching.simulation.traffic.traces.format import Request

T = TypeVar("T")

Chosen = npt.NDArray[np.int64]
Stream = Callable[[], Iterator[Request]]
"""Opens a source of requests anew, for traffic that is too long to be kept."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """What is the same for every policy that is compared.

    Attributes:
        arrivals: When requests come (seconds); or users who send again when answered; or a stream,
            of which no records are kept, so that its percentiles are right to 0.1 % only.
        server: How long a worker takes for a batch, or each of them if they differ.
        limits: Of batches, latency and queue.
        sizes: Items that each request brings; 1 each if None.
        keys: Batch key of each request, iterated anew for each run; there may be more of them than
            requests. None for no keys, or those of the stream.
        max_latencies: Seconds that each request is ready to wait; NaN for the limit's.
        claims: The tenant of each request, as `keys`; None if there are none.
        costs: What the items of each request cost (`Job.cost`), as `keys`; None if nothing. The
            dispatchers know of them if `limits.costs` says how they add up.
        fairness: How tenants share the workers; None for first come, first served.
        fleet: Several dispatchers instead of one.
        timer_resolution: Of the wake-ups (seconds); 0 for a perfect timer.
        loop_delay: How late everything is noticed (seconds). The default of 0 is an event loop
            that never lags: right for what is to be compared with a limit or with theory. What a
            machine will do takes 0.25e-3, as the commands do, or what `fit` says of a recording.
        retries: What clients do who are refused, or answered too late; None for nothing.
        idempotent: Whether members of a batch that failed run again.
        warmup: Seconds at the start that are simulated and not counted.
        seed: Of the workers' jitter and pauses.
    """

    arrivals: Times | ClosedLoop | Stream
    server: Server | UnevenServers
    limits: Limits
    sizes: Sequence[int] | None = None
    keys: Iterable[Hashable] | None = None
    max_latencies: Times | None = None
    claims: Iterable[Claim] | None = None
    costs: Iterable[float] | None = None
    fairness: Fairness | None = None
    fleet: Fleet = ONE_DISPATCHER
    timer_resolution: float = 0.0
    loop_delay: float = 0.0
    retries: Retries | None = None
    idempotent: bool = False
    warmup: float = 0.0
    seed: int = 0

    def run(self, policy: PolicyLike, workers: int = 1) -> Row:
        """Simulate one policy from the beginning and sum up.

        Args:
            policy: Its name, its class or factory, or a fresh one.
            workers: Batches that may run at the same time, all dispatchers together.

        Raises:
            ValueError: No policy has that name, there are fewer workers than dispatchers, or they
                differ and are not so many.
        """
        name = policy if isinstance(policy, str) else type(make_policy(policy)).__name__.lower()
        tally, history = Tally(self.warmup), History()
        streamed = callable(self.arrivals)
        begun = perf_counter()
        sent_again = self.play(policy, workers, tally if streamed else history)
        elapsed = perf_counter() - begun
        if streamed:
            row = tally.row(name, workers, elapsed)
        else:
            row = summarize(
                history, policy=name, workers=workers, warmup=self.warmup, elapsed=elapsed
            )
        return replace(row, sent_again=sent_again)

    def play(self, policy: PolicyLike, workers: int, collector: Collector) -> int:
        """Simulate one policy from the beginning and tell a collector; as `run`.

        Returns:
            How many times a request was sent again.
        """
        feed = ArrivalStream(
            self.arrivals() if callable(self.arrivals) else self.arrivals,
            self.sizes,
            self.keys,
            self.max_latencies,
            self.claims,
            self.costs,
        )
        schedulers = self.fleet.schedulers(
            policy,
            self.limits,
            workers,
            idempotent=self.idempotent,
            fairness=self.fairness,
            timer_resolution=self.timer_resolution,
        )
        return drive(
            feed,
            schedulers,
            self.server.service(self.seed),
            collector,
            fleet=self.fleet,
            timer_resolution=self.timer_resolution,
            loop_delay=self.loop_delay,
            retries=self.retries,
            seed=self.seed,
        )

    def only(self, chosen: Chosen) -> Self:
        """This experiment with some of its requests, which are known beforehand.

        Args:
            chosen: Their indices; one may be there more than once.
        """
        arrivals, sizes, keys, own = self.arrivals, self.sizes, self.keys, self.max_latencies
        assert isinstance(arrivals, np.ndarray)
        if keys is not None:
            keys = _chosen(keys, len(arrivals), chosen)
        claims = self.claims
        if claims is not None:
            claims = _chosen(claims, len(arrivals), chosen)
        costs = self.costs
        if costs is not None:
            costs = _chosen(costs, len(arrivals), chosen)
        return replace(
            self,
            arrivals=arrivals[chosen],
            sizes=None if sizes is None else np.asarray(sizes)[chosen].tolist(),
            keys=keys,
            max_latencies=None if own is None else own[chosen],
            claims=claims,
            costs=costs,
        )

    def that_fit(self) -> Self:
        """This experiment without the requests that are refused because they cost too much.

        Users of a closed loop, and streams, bring all of theirs.
        """
        costs, arrivals = self.limits.costs, self.arrivals
        if costs is None or self.costs is None or not isinstance(arrivals, np.ndarray):
            return self
        sizes = repeat(1, len(arrivals)) if self.sizes is None else self.sizes
        fits = [
            costs.as_run(size, cost, cost) <= costs.max_batch_cost
            for size, cost in zip(sizes, self.costs, strict=False)
        ]
        return self if all(fits) else self.only(np.flatnonzero(fits))


def _chosen(each: Iterable[T], number: int, chosen: Chosen) -> list[T]:
    known = list(islice(each, number))
    return [known[index] for index in chosen]
