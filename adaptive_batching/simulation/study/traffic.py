"""What a simulation is fed: recorded or made, with the facts that a report has to name."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from adaptive_batching.errors import TraceError
from adaptive_batching.simulation.clients.closed_loop import ClosedLoop, Span
from adaptive_batching.simulation.clients.tenants import Crowd
from adaptive_batching.simulation.study.experiment import Stream
from adaptive_batching.simulation.traffic.arrivals import GENERATORS, Times
from adaptive_batching.simulation.traffic.shaping import (
    expect_factor,
    scale_rate,
    speedup,
    superpose,
)
from adaptive_batching.simulation.traffic.traces import Measure, Request, read_trace, stream_trace
from adaptive_batching.units import counted, format_duration

Fact = str | float | int | None


@dataclass(frozen=True, slots=True)
class Shaping:
    """How recorded traffic was made denser, in this order.

    Attributes:
        superpose: Shifted copies that were laid over one another.
        rate_scale: How many times its requests there are on the same clock.
        speedup: What its times were divided by.
    """

    superpose: int = 1
    rate_scale: float = 1.0
    speedup: float = 1.0


@dataclass(frozen=True, slots=True)
class Traffic:
    """Requests in order of time.

    Attributes:
        source: The file, or the name of the generator.
        arrivals: Seconds from the start, users, or a stream.
        duration: Seconds from the start to the end; None if not known beforehand.
        sizes: Items of each request; None if each brings one.
        keys: Batch key of each request, or more of them; None if there are none, or a stream has
            them.
        keyed: What is to be said of the keys; None if there are none.
        max_latencies: Seconds that each request is ready to wait, NaN where it did not say; None if
            no request did.
        crowd: The tenants of the requests; None if there are none.
        costs: What the items of each request cost, as `keys`.
        costed: What is to be said of the costs; None if there are none.
        shaping: What was done to a recording.
        seed: Of the generator; None for a recording.
        poisson_rate: Requests a second if they are Poisson; None if they are not.
    """

    source: str
    arrivals: Times | ClosedLoop | Stream
    duration: float | None
    sizes: Sequence[int] | None = None
    keys: Iterable[Hashable] | None = None
    keyed: str | None = None
    max_latencies: Times | None = None
    crowd: Crowd | None = None
    costs: Iterable[float] | None = None
    costed: str | None = None
    shaping: Shaping = Shaping()
    seed: int | None = None
    poisson_rate: float | None = None

    def __str__(self) -> str:
        if isinstance(self.arrivals, ClosedLoop):
            return f"{self.source} {self.arrivals}, {format_duration(self.arrivals.duration)}"
        requests, duration = self.requests, self.duration
        if requests is None or duration is None:
            return f"{self.source}, streamed"
        items = "" if self.sizes is None else f" of {counted(sum(self.sizes), 'item')}"
        said = f"{counted(requests, 'request')}{items} in {format_duration(duration)}"
        return f"{self.source}: {said}"

    @property
    def requests(self) -> int | None:
        """How many; None if that is not known beforehand."""
        arrivals = self.arrivals
        return None if isinstance(arrivals, ClosedLoop) or callable(arrivals) else len(arrivals)

    @property
    def facts(self) -> dict[str, Fact]:
        """What a report says of it; None where there is nothing to say."""
        known = self.requests is not None and self.duration
        return {
            "source": self.source,
            "requests": self.requests,
            "items": None if self.sizes is None else sum(self.sizes),
            "duration": self.duration,
            "rate": (self.requests or 0) / self.duration if known and self.duration else None,
            **asdict(self.shaping),
            "seed": self.seed,
            "keys": self.keyed,
            "tenants": None if self.crowd is None else str(self.crowd),
            "costs": self.costed,
        }


_RECORDED, _RECORDED_COSTS = "recorded keys", "recorded costs"
_LATEST = 1e10  # seconds, three hundred years


def recorded(
    path: Path,
    shaping: Shaping = Shaping(),
    *,
    form: str | None = None,
    measure: Measure | None = None,
    with_sizes: bool = False,
    with_keys: bool = False,
    cost: Measure | None = None,
    seed: int = 0,
) -> Traffic:
    """Read a trace and make it denser.

    Args:
        path: The file.
        shaping: How.
        form: The name of its format; told from its content if None.
        measure: What its sizes are to count; the most natural of the format if None.
        with_sizes: Whether sizes count as items; otherwise each request is one item.
        with_keys: Whether only requests of one key may share a batch; otherwise all may.
        cost: What costs count in a trace without a column of costs; requests cost nothing there if
            None.
        seed: Of the lots that `rate_scale` draws.

    Raises:
        TraceError: It can't be read, or has no keys or costs where there should be some.
        ValueError: A factor is not positive.
    """
    trace = read_trace(path, form=form, measure=measure, with_keys=with_keys, cost=cost)
    if with_keys and all(key is None for key in trace.keys):
        raise _none_of("keys", path)
    costed = bool(trace.costs.any())
    if cost is not None and not costed:
        raise _none_of("costs", path)
    times, origins = superpose(trace.times, shaping.superpose)
    denser, again = scale_rate(times, shaping.rate_scale, seed)
    faster = speedup(denser, shaping.speedup)
    if not len(faster):
        raise ValueError(f"rate-scale: expected a factor that leaves a request, got none of {path}")
    _expect_seconds(float(faster[-1]), path)
    chosen = origins[again]
    told = not np.isnan(trace.max_latencies).all()
    several = with_sizes and bool((trace.sizes > 1).any())
    return Traffic(
        str(path),
        faster,
        float(faster[-1]),
        sizes=trace.sizes[chosen].tolist() if several else None,
        keys=trace.keys[chosen].tolist() if with_keys else None,
        keyed=_RECORDED if with_keys else None,
        max_latencies=trace.max_latencies[chosen] if told else None,
        costs=trace.costs[chosen].tolist() if costed else None,
        costed=_RECORDED_COSTS if costed else None,
        shaping=shaping,
    )


def streamed(
    path: Path,
    factor: float = 1.0,
    *,
    form: str | None = None,
    measure: Measure | None = None,
    with_sizes: bool = False,
    with_keys: bool = False,
    cost: Measure | None = None,
) -> Traffic:
    """Read a trace as it is replayed, in the same memory whatever its length.

    The arguments are those of `recorded`; `factor` divides the times. Costs are left out, even
    those of a column, unless `cost` says otherwise.

    Raises:
        ValueError: The factor is not positive. Faults of the file come when it is read.
    """
    expect_factor("speedup", factor)

    def requests() -> Iterator[Request]:
        trace = stream_trace(path, form=form, measure=measure, with_keys=with_keys, cost=cost)
        keyed, costed = not with_keys, cost is None
        for time, size, key, max_latency, price in trace:
            if time > _LATEST * factor:
                _expect_seconds(time / factor, path)
            keyed, costed = keyed or key is not None, costed or bool(price)
            yield Request(
                time / factor,
                size if with_sizes else 1,
                key if with_keys else None,
                max_latency,
                None if cost is None else price,
            )
        if not keyed:
            raise _none_of("keys", path)
        if not costed:
            raise _none_of("costs", path)

    return Traffic(
        str(path),
        requests,
        None,
        keyed=_RECORDED if with_keys else None,
        costed=None if cost is None else _RECORDED_COSTS,
        shaping=Shaping(speedup=factor),
    )


def _expect_seconds(latest: float, path: Path) -> None:
    """Refuse times of which a float can't tell microseconds any more: they are in another unit."""
    if latest > _LATEST:
        expected = f"times within {_LATEST:g} s, or a --speedup that makes seconds of its unit"
        raise TraceError(f"{path}, its times: expected {expected}, got {latest:g}")


def _none_of(what: str, path: Path) -> TraceError:
    return TraceError(f"{path}, its {what}: expected some, got none")


def made(kind: str, *, rate: float, duration: float, seed: int = 0) -> Traffic:
    """Make traffic with a generator of `arrivals.GENERATORS`.

    Args:
        kind: Its name.
        rate: Requests a second.
        duration: Seconds.
        seed: The same traffic for the same seed.

    Raises:
        ValueError: A number is not positive, or too many requests would come.
    """
    times = GENERATORS[kind](rate, duration, seed=seed)
    poisson_rate = rate if kind == "poisson" else None
    return Traffic(kind, times, duration, seed=seed, poisson_rate=poisson_rate)


def closed(users: int, duration: float, think: Span, turnaround: Span, seed: int = 0) -> Traffic:
    """Users who send again when they are answered.

    Raises:
        ValueError: As `ClosedLoop`.
    """
    loop = ClosedLoop(users, duration, think, turnaround, seed)
    return Traffic("closed", loop, duration, seed=seed)
