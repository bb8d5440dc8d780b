"""A model of ONNX as a handler: arrays that come together are stacked and run at once."""

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import Any

from adaptive_batching.errors import InvalidItem

__all__ = ["OnnxModel"]

_DTYPES = {"float": "float32", "double": "float64", "string": "object"}  # others have NumPy's names


class OnnxModel:
    """Runs a session over stacked items; an item that does not fit the model fails alone.

    An item is an array without the batch's axis, or a dict of them if the model has several inputs;
    so is a result. Items of unlike lengths need a `key=` of their calls that keeps them apart.

    Args:
        path: The model. The first axis of its inputs and outputs has to be the batch's.
        outputs: Which outputs to compute; all if nothing is said.
        threads: Cores for one batch. One is right where several workers share the cores.
        providers: Where it runs, such as `["CUDAExecutionProvider"]`; see onnxruntime.

    Raises:
        ValueError: The model takes batches of one size only.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        outputs: Sequence[str] | None = None,
        threads: int = 1,
        providers: Sequence[str] | None = None,
    ) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self._session = onnxruntime.InferenceSession(fspath(path), options, providers=providers)
        self._inputs = {each.name: each for each in self._session.get_inputs()}
        self._outputs = list(outputs or [each.name for each in self._session.get_outputs()])
        for name, each in self._inputs.items():
            if isinstance(size := (each.shape or [1])[0], int):
                msg = f"{path}: input {name} takes batches of {size} only"
                raise ValueError(f"{msg}: export the model with a dynamic first axis")  # noqa: TRY004

    def preprocess(self, item: Any) -> list[Any]:
        """Return the array of each input, or raise `InvalidItem` if it does not fit."""
        given = item if isinstance(item, Mapping) else dict.fromkeys(list(self._inputs)[:1], item)
        if given.keys() != self._inputs.keys():
            raise InvalidItem("$", f"expected arrays for {[*self._inputs]}, got {[*given]}")
        return [_fitting(given[name], each) for name, each in self._inputs.items()]

    def __call__(self, items: list[list[Any]]) -> Sequence[Any]:
        """Return the result of each item."""
        import numpy as np

        stacked = map(np.stack, zip(*items, strict=True))
        results = self._session.run(self._outputs, dict(zip(self._inputs, stacked, strict=True)))
        if len(results) == 1:
            return results[0]  # type: ignore[no-any-return]
        return [dict(zip(self._outputs, row, strict=True)) for row in zip(*results, strict=True)]


def _fitting(value: Any, taken: Any) -> Any:
    """Return an array of the type and the shape that an input takes."""
    import numpy as np

    name, shape = taken.type.removeprefix("tensor(").removesuffix(")"), taken.shape[1:]
    try:
        array = np.asarray(value, dtype=_DTYPES.get(name, name))
    except (TypeError, ValueError) as error:
        raise InvalidItem(f"$.{taken.name}", f"expected an array of {name}: {error}") from None
    wanted = [n if isinstance(n, int) else m for n, m in zip(shape, array.shape, strict=False)]
    if len(shape) != array.ndim or wanted != [*array.shape]:
        raise InvalidItem(f"$.{taken.name}", f"expected shape {shape}, got {[*array.shape]}")
    return array
