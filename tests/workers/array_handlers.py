"""Handlers that take arrays: apart, since NumPy takes as long to import as all else."""

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from adaptive_batching import Padded, Shape


class Norms:
    """Takes padded vectors in one array, and says more than one thing of each."""

    def __call__(
        self, x: Annotated[NDArray[np.float64], Shape(None), Padded()]
    ) -> dict[str, NDArray[np.float64]]:
        norm = np.linalg.norm(x, axis=1)
        return {"norm": norm, "unit": x / norm[:, None]}


def unclear(x: np.ndarray) -> np.ndarray:
    """Say too little of one item."""
    return x
