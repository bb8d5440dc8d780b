"""A fitted model on disk, so that its table need not be typed."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from adaptive_batching.core import Limits
from adaptive_batching.simulation.servers.costs import CostSeconds
from adaptive_batching.simulation.servers.curves import Padded, Table
from adaptive_batching.simulation.servers.servers import Server

if TYPE_CHECKING:  # reading a model needs no optimizer
    from adaptive_batching.simulation.fitting.fit import Fit

_MOST_RESIDUALS = 4096  # the last ones; more say nothing new
_UNUSUAL = (0.5, 1.5)  # of the usual cost: two points of a line, around the one that is known best


class Recorded(NamedTuple):
    """What a recorded service was like.

    Attributes:
        server: Its workers: how long batches take until they end, not until the loop notices.
        loop_delay: How late its event loop notices everything (seconds).
        mean_cost: What its batches cost for each of their items, where costs matter.
        largest: The largest batch that was learned from (items); larger ones are extrapolated.
            None if that is not known.
    """

    server: Server
    loop_delay: float
    mean_cost: float = 0.0
    largest: int | None = None


class Rehearsed(NamedTuple):
    """A batch of which it is known how long it takes.

    Attributes:
        size: Items.
        seconds: That it takes.
        cost: What its items cost together; 0 where all cost the same.
    """

    size: int
    seconds: float
    cost: float = 0.0


class _Model(msgspec.Struct, forbid_unknown_fields=True):
    """What the file holds, as JSON: sizes with seconds as recorded, and others in seconds."""

    table: list[tuple[int, float]]
    residuals: list[float]
    loop_delay: float = 0.0
    per_cost: float = 0.0
    padded: bool = False
    mean_cost: float = 0.0
    sizes: tuple[int, ...] = ()  # that batches are filled up to
    largest: int | None = None  # that was learned from


def save_model(fitted: "Fit", path: Path) -> None:
    """Write the table of a fit, and how single batches scattered about it.

    Raises:
        OSError: It can't be written.
    """
    path.write_bytes(msgspec.json.encode(_model(fitted)) + b"\n")


def read_model(path: str) -> Recorded:
    """The workers and the event loop that a file describes.

    Raises:
        ValueError: It can't be read, or isn't a model that was saved.
    """
    try:
        model = msgspec.json.decode(Path(path).read_bytes(), type=_Model)
    except OSError as error:
        raise ValueError(f"expected a readable file, got {error.strerror}: {path}") from error
    except msgspec.DecodeError as error:
        raise ValueError(f"expected what `fit --save` wrote, got {path}: {error}") from error
    return _recorded(model)


def recorded_by(fitted: "Fit") -> Recorded:
    """The workers and the event loop of a fit that was not saved."""
    return _recorded(_model(fitted))


def _model(fitted: "Fit") -> _Model:
    table = [(level.size, level.predicted) for level in fitted.levels]
    size, seconds = table[-1]
    # A table goes on as it ends: beyond its sizes the line knows better than the last two of them.
    table.append((2 * size, seconds + size * fitted.per_item.value))
    residuals, costs = fitted.residuals[-_MOST_RESIDUALS:], fitted.costs
    if costs is None:
        return _Model(table, residuals, fitted.loop_delay, largest=size)
    known = (costs.per_cost.value, costs.padded, costs.mean_cost, fitted.sizes, size)
    return _Model(table, residuals, fitted.loop_delay, *known)


def _recorded(model: _Model) -> Recorded:
    ended = tuple((size, max(0.0, seconds - model.loop_delay)) for size, seconds in model.table)
    costs = None
    if model.per_cost:
        costs = CostSeconds(model.per_cost, padded=model.padded, sizes=model.sizes)
    curve = Padded(Table(ended), model.sizes) if model.sizes else Table(ended)
    residuals = tuple(model.residuals)
    server = Server(0.0, 0.0, curve=curve, residuals=residuals, costs=costs)
    return Recorded(server, model.loop_delay, model.mean_cost, model.largest)


def rehearsed(recorded: Recorded, limits: Limits) -> list[Rehearsed]:
    """Return batches of each allowed size, else of 1, 2, 4 … and `max_batch_size` items.

    They take what a loop sees of them. Where the limits have costs, a batch of each size costs less
    than usual and another more, so that it is known what a unit of cost takes.

    Raises:
        ValueError: The limits have costs, and what is recorded has none, or others.
    """
    server, delay, mean_cost, _ = recorded
    _check_costs(server.costs, limits)
    most = limits.max_batch_size
    known = limits.sizes or (*(2**power for power in range(most.bit_length())), most)
    per_cost = 0.0 if server.costs is None else server.costs.per_cost
    batches = []
    for size in dict.fromkeys(size for size in known if size <= most):
        usual, seconds = mean_cost * size, server.mean(size) + delay
        if limits.costs is None:
            batches.append(Rehearsed(size, seconds + per_cost * usual))
            continue
        for share in _UNUSUAL:
            cost = min(share * usual, limits.costs.max_batch_cost)
            batches.append(Rehearsed(size, seconds + per_cost * cost, cost))
    return batches


def _check_costs(known: CostSeconds | None, limits: Limits) -> None:
    """See that a file knows what costs add, if there are costs."""
    if limits.costs is None:
        return
    if known is None:
        expected = "expected a file that says what a unit of cost takes, got one that does not"
        why = "its recording had no costs, or `fit` could not tell what they add"
        raise ValueError(f"{expected}: {why}; leave out either it or the costs")
    if known.padded != limits.costs.padded:
        expected = f"expected padded={known.padded}, as the recorded batches were"
        raise ValueError(f"{expected}, got padded={limits.costs.padded}")
