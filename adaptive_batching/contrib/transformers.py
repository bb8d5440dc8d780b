"""A pipeline of transformers as a handler: texts, images or whatever it takes, in lists."""

from collections.abc import Mapping
from typing import Any

__all__ = ["TransformersPipeline"]


class TransformersPipeline:
    """Runs a batch of items through a `pipeline` in one pass; each gets what it would alone.

    Args:
        task: What the pipeline does, such as `"text-classification"`; or a pipeline that is loaded.
        load: Arguments of `pipeline`, which each worker calls: `{"model": …, "device": 0}`.
        call: Arguments of each call, such as `{"top_k": None, "truncation": True}`.
    """

    def __init__(
        self,
        task: Any,
        *,
        load: Mapping[str, Any] | None = None,
        call: Mapping[str, Any] | None = None,
    ) -> None:
        if isinstance(task, str):
            from transformers import pipeline

            task = pipeline(task, **load or {})
        self._pipeline = task
        self._call = dict(call or {})

    def __call__(self, items: list[Any]) -> list[Any]:
        """Return the pipeline's result for each item."""
        results = self._pipeline(items, batch_size=len(items), **self._call)
        if len(items) == 1 and not (isinstance(results, list) and len(results) == 1):
            return [results]  # of a list of one, question answering returns the bare result
        return list(results)
