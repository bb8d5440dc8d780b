"""A value on its way to a worker process, read there when it is asked for and not before."""

import pickle
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Pickled:
    """A value that refers to what can be imported only once a handler has been.

    Attributes:
        data: Its pickle, of our own making: it travels on the inherited socket pair only.
    """

    data: bytes

    @classmethod
    def of(cls, value: object) -> Self:
        """Pickle it.

        Raises:
            Exception: Whatever pickling it raised.
        """
        return cls(pickle.dumps(value, protocol=5))

    def load(self) -> Any:
        """Read it.

        Raises:
            Exception: Whatever unpickling it raised.
        """
        return pickle.loads(self.data)  # noqa: S301 - from who started this process
