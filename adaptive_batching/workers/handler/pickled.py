"""A value on its way to a worker process, read there when it is asked for and not before."""

import pickle
from dataclasses import dataclass
from typing import Any, Self

from adaptive_batching.errors import HandlerNotFound


@dataclass(frozen=True, slots=True)
class Pickled:
    """A value that refers to what can be imported only once a handler has been.

    Attributes:
        data: Its pickle, of our own making: it travels on the inherited socket pair only.
    """

    data: bytes

    @classmethod
    def of(cls, value: object, name: str = "what a handler declares") -> Self:
        """Pickle it; `name` is what it is called if that fails.

        Raises:
            HandlerNotFound: Another process could not find all that it refers to.
        """
        try:
            return cls(pickle.dumps(value, protocol=5))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            msg = (
                f"{name} can't be brought to a worker process: {error}: define it"
                " at the top level of a module"
            )
            raise HandlerNotFound(msg) from error

    def load(self) -> Any:
        """Read it.

        Raises:
            Exception: Whatever unpickling it raised.
        """
        return pickle.loads(self.data)  # noqa: S301 - from the parent of this process
