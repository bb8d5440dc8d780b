"""A fitted model on disk, so that nobody has to type a table."""

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from adaptive_batching.simulation.servers.curves import Table
from adaptive_batching.simulation.servers.servers import Server

if TYPE_CHECKING:  # who reads a model has no use for the optimizer that fits one
    from adaptive_batching.simulation.fitting.fit import Fit

_MOST_RESIDUALS = 4096  # the last ones; more say nothing new


class _Model(msgspec.Struct, forbid_unknown_fields=True):
    """What the file holds, as JSON: sizes with seconds, and residuals in seconds."""

    table: list[tuple[int, float]]
    residuals: list[float]


def save_model(fitted: "Fit", path: Path) -> None:
    """Write the table of a fit, and how single batches scattered about it.

    Raises:
        OSError: It can't be written.
    """
    table = [(level.size, level.predicted) for level in fitted.levels]
    size, seconds = table[-1]
    # A table goes on as it ends: beyond its sizes the line knows better than the last two of them.
    table.append((2 * size, seconds + size * fitted.per_item.value))
    model = _Model(table, fitted.residuals[-_MOST_RESIDUALS:])
    path.write_bytes(msgspec.json.encode(model) + b"\n")


def read_model(path: str) -> Server:
    """The workers that a file describes.

    Raises:
        ValueError: It can't be read, or isn't a model that was saved.
    """
    try:
        model = msgspec.json.decode(Path(path).read_bytes(), type=_Model)
    except OSError as error:
        raise ValueError(f"expected a readable file, got {error.strerror}: {path}") from error
    except msgspec.DecodeError as error:
        raise ValueError(f"expected what `fit --save` wrote, got {path}: {error}") from error
    return Server(0.0, 0.0, curve=Table(tuple(model.table)), residuals=tuple(model.residuals))


def rehearsed(server: Server, largest: int) -> list[tuple[int, float]]:
    """What a model says of batches of 1, 2, 4 … and `largest` items: sizes and seconds."""
    sizes = [2**power for power in range(largest.bit_length())]
    return [(size, server.mean(size)) for size in dict.fromkeys([*sizes, largest])]
