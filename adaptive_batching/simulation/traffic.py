"""What a simulation is fed: recorded or made, with the facts that a report has to name."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from adaptive_batching.simulation.arrivals import GENERATORS, Times
from adaptive_batching.simulation.traces import read_trace, speedup


@dataclass(frozen=True, slots=True)
class Traffic:
    """Requests in order of time.

    Attributes:
        source: The file, or the name of the generator.
        times: Seconds from the start.
        duration: Seconds from the start to the end.
        sizes: Items of each request; None if each brings one.
        speedup: What the recorded times were divided by.
        seed: Of the generator; None for a recording.
        poisson_rate: Requests a second if they are Poisson; None if they are not.
    """

    source: str
    times: Times
    duration: float
    sizes: Sequence[int] | None = None
    speedup: float = 1.0
    seed: int | None = None
    poisson_rate: float | None = None

    @property
    def facts(self) -> dict[str, str | float | int | None]:
        """What a report says of it; None where there is nothing to say."""
        requests = len(self.times)
        return {
            "source": self.source,
            "requests": requests,
            "duration": self.duration,
            "rate": requests / self.duration if self.duration > 0 else None,
            "speedup": self.speedup,
            "seed": self.seed,
        }


def recorded(path: Path, *, factor: float = 1.0, with_sizes: bool = False) -> Traffic:
    """Read a trace and speed it up.

    Args:
        path: A CSV file, plain or gzipped.
        factor: What its times are divided by.
        with_sizes: Whether its sizes count items; otherwise each request is one item.

    Raises:
        TraceError: It can't be read.
        ValueError: The factor is not positive.
    """
    trace = read_trace(path)
    times = speedup(trace.times, factor)
    sizes: list[int] | None = trace.sizes.tolist() if with_sizes else None
    return Traffic(str(path), times, float(times[-1]), sizes, speedup=factor)


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
