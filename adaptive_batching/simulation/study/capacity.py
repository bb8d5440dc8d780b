"""How many workers some traffic needs, and how much more of it they would bear."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf

from adaptive_batching.core import Limits, PolicyLike
from adaptive_batching.simulation.clients.closed_loop import ClosedLoop
from adaptive_batching.simulation.servers.servers import Server, UnevenServers
from adaptive_batching.simulation.study.experiment import Experiment, Stream
from adaptive_batching.simulation.study.report import Row
from adaptive_batching.simulation.study.target import Target
from adaptive_batching.simulation.traffic.arrivals import Times
from adaptive_batching.simulation.traffic.shaping import scale_rate

CURVE = (0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0)
"""Times the traffic's requests on the same clock, or its users."""

_LUCK = 1.05  # by which noisy workers may be faster than their mean


@dataclass(frozen=True, slots=True)
class Trial:
    """One simulation of the search.

    Attributes:
        max_batch_size: Items.
        row: What it came to.
        holds: Whether the target was held.
    """

    max_batch_size: int
    row: Row
    holds: bool


@dataclass(frozen=True, slots=True)
class Shortfall:
    """A number of workers that was not enough.

    Attributes:
        workers: The number.
        reasons: Why, in words: of its best batch limit, and of all if not even workers that never
            rest would do.
    """

    workers: int
    reasons: list[str]


@dataclass(frozen=True, slots=True)
class Search:
    """How a search ended.

    Attributes:
        best: The fewest workers that hold the target, with the best batch limit for them; None if
            no number was enough.
        tried: All that was simulated.
        short: What fewer workers lacked.
    """

    best: Trial | None
    tried: list[Trial]
    short: list[Shortfall]


@dataclass(frozen=True, slots=True)
class Point:
    """The chosen set-up under more or less of the traffic.

    Attributes:
        scale: Times the requests of the traffic, or its users.
        users: How many those are; None if the arrivals are given.
        row: What it came to.
        holds: Whether the target was held; of its answers a second, times the scale.
    """

    scale: float
    users: int | None
    row: Row
    holds: bool


def smallest(
    experiment: Experiment,
    policy: PolicyLike,
    workers: Sequence[int],
    target: Target,
    *,
    recorded: int | None = None,
    done: Callable[[], None] = lambda: None,
) -> Search:
    """Find the fewest workers that hold the target, and the best batch limit for them.

    The limits tried are those of `batch_limits`, but for those with which even workers that never
    rest are too slow. Of those that hold the target, one up to the largest recorded batch is better
    than one beyond it; then the one with the most goodput is best, then the one with the least p99.

    Args:
        experiment: The traffic, the workers' durations and the largest batch limit.
        policy: Its name, class or factory.
        workers: Numbers to try, fewest first.
        target: What has to hold.
        recorded: The largest batch of which it was seen how long it takes (items); None if that is
            known of any.
        done: Called for each number of workers and batch limit when it is done.

    Raises:
        ValueError: The arrivals are a stream, or the workers differ.
    """
    asked = _asked(experiment, target)
    tried: list[Trial] = []
    short: list[Shortfall] = []
    for number in workers:
        trials = []
        for limit in batch_limits(experiment.limits, recorded):
            limited = _with_limit(experiment, limit)
            if not _hopeless(limited, number, asked):
                row = limited.run(policy, number)
                trials.append(Trial(limit, row, target.holds(row)))
            done()
        tried += trials
        if holding := [trial for trial in trials if trial.holds]:
            seen = [trial for trial in holding if trial.max_batch_size <= (recorded or inf)]
            return Search(min(seen or holding, key=_rank), tried, short)
        short.append(_shortfall(experiment, number, asked, target, trials))
    return Search(None, tried, short)


def curve(
    experiment: Experiment, policy: PolicyLike, best: Trial, target: Target
) -> Iterator[Point]:
    """Simulate the chosen set-up under less and more traffic.

    Raises:
        ValueError: The arrivals are a stream, or the users become too many.
    """
    limited = _with_limit(experiment, best.max_batch_size)
    for scale in CURVE:
        scaled, users = _scaled(limited, scale)
        row = best.row if scale == 1 else scaled.run(policy, best.row.workers)
        asked = target.throughput
        share = replace(target, throughput=None if asked is None else asked * scale)
        yield Point(scale, users, row, share.holds(row))


def batch_limits(limits: Limits, recorded: int | None = None) -> list[int]:
    """The batch limits that are tried: the allowed sizes, or where any size may be run, a few.

    These are the limit itself, the powers of two below it, and the largest recorded batch.
    """
    largest = limits.max_batch_size
    if limits.sizes:
        return [size for size in limits.sizes if size <= largest]
    powers = {2**power for power in range(largest.bit_length())}
    return sorted({*powers, largest, min(largest, recorded or largest)})


def _scaled(experiment: Experiment, scale: float) -> tuple[Experiment, int | None]:
    """With so many times the requests on the same clock, or the users."""
    arrivals = _known(experiment.arrivals)
    if isinstance(arrivals, ClosedLoop):
        users = max(1, round(arrivals.users * scale))
        return replace(experiment, arrivals=arrivals.with_users(users)), users
    times, origins = scale_rate(arrivals, scale, experiment.seed)
    return replace(experiment.only(origins), arrivals=times), None


def _known(arrivals: Times | ClosedLoop | Stream) -> Times | ClosedLoop:
    if callable(arrivals):
        raise ValueError("capacity: expected arrivals that are known, got a stream")  # noqa: TRY004
    return arrivals


def _asked(experiment: Experiment, target: Target) -> float:
    """Answers a second that are needed if all is to be done by the last deadline."""
    arrivals = _known(experiment.arrivals)
    if isinstance(experiment.server, UnevenServers):
        raise ValueError("capacity: expected workers that are alike, got some that differ")  # noqa: TRY004
    if isinstance(arrivals, ClosedLoop):
        return target.throughput or 0.0
    if not len(arrivals):
        return 0.0
    span = float(arrivals[-1] - arrivals[0]) + target.max_latency
    return target.goodput * len(arrivals) / span


def _most(experiment: Experiment, workers: int) -> float:
    """Requests a second that full batches on end get done; infinite if that is not known."""
    server, limit = experiment.server, experiment.limits.max_batch_size
    assert isinstance(server, Server)
    duration = server.mean(limit)
    if experiment.sizes is not None or not duration:
        return inf  # with sizes, a share of the requests may be any share of the items
    if server.curve is not None or server.conditions or server.costs is not None:
        return inf  # full batches may not be the fastest, nor take that long
    return workers * limit / duration


def _hopeless(experiment: Experiment, workers: int, asked: float) -> bool:
    return _most(experiment, workers) * _LUCK < asked


def _shortfall(
    experiment: Experiment, workers: int, asked: float, target: Target, trials: Sequence[Trial]
) -> Shortfall:
    most = _most(experiment, workers)
    reasons = []
    if most < asked:
        reasons.append(f"{most:,.0f} answers/s if they never rest, {asked:,.0f} are needed")
    if trials:
        closest = min(trials, key=_rank)
        missed = ", ".join(target.missed(closest.row))
        reasons.append(f"{missed} (batches of up to {closest.max_batch_size})")
    return Shortfall(workers, reasons)


def limited(limits: Limits, max_batch_size: int) -> Limits:
    """Limits with another size of batches at the most, and with the allowed sizes up to it."""
    sizes = tuple(size for size in limits.sizes if size <= max_batch_size)
    return replace(limits, max_batch_size=max_batch_size, sizes=sizes)


def _with_limit(experiment: Experiment, max_batch_size: int) -> Experiment:
    return replace(experiment, limits=limited(experiment.limits, max_batch_size))


def _rank(trial: Trial) -> tuple[float, float, int]:
    """Best first; a tenth of a point of goodput is noise."""
    goodput, p99 = trial.row.goodput or 0.0, trial.row.p99_latency
    return -round(goodput, 3), inf if p99 is None else p99, trial.max_batch_size
