"""The requests of the HTTP benchmarks: as in real traffic, no two in a row are the same."""

from dataclasses import dataclass, field
from random import Random

from adaptive_batching.load.plans import JSON

_BODIES = 1009  # a prime: bodies and batch sizes don't keep in step


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bodies that are sent by turns.

    Attributes:
        bodies: All of the same length, so that only names tell heads apart.
        answers: What the answer to each body contains; empty if answers are not compared.
        headers: Of every request.
    """

    bodies: list[bytes]
    answers: list[bytes] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=JSON.copy)


def _rows() -> list[bytes]:
    """Four numbers in each, as in a table of flowers."""
    random = Random(0)  # noqa: S311  not a secret
    tenths = ([random.randrange(1, 100) / 10 for _ in range(4)] for _ in range(_BODIES))
    return [str(row).replace(" ", "").encode() for row in tenths]


ROWS = Traffic(_rows(), _rows())
"""For a model that returns its items."""

INSTANCES = Traffic([b'{"instances": [%b]}' % row for row in _rows()], _rows())
"""For a model server of TensorFlow Serving's protocol that returns its instances."""
