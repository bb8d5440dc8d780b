"""Models of sentence-transformers as handlers: texts become vectors, pairs of texts scores."""

from collections.abc import Mapping
from os import PathLike
from typing import Any

__all__ = ["PairScorer", "SentenceEncoder"]


class SentenceEncoder:
    """Encodes a batch of texts in one pass: `SentenceTransformer.encode`; each gets its vector.

    Args:
        model: The name or the folder of a model, which each worker loads, or a loaded model.
        load: Arguments of `SentenceTransformer`, such as `{"device": "cuda"}`.
        encode: Arguments of its `encode`, such as `{"normalize_embeddings": True}`.
    """

    def __init__(
        self,
        model: "str | PathLike[str] | Any",
        *,
        load: Mapping[str, Any] | None = None,
        encode: Mapping[str, Any] | None = None,
    ) -> None:
        if isinstance(model, str | PathLike):
            from sentence_transformers import SentenceTransformer

            model = SentenceTransformer(str(model), **load or {})
        self._model = model
        self._encode = dict(encode or {})

    def __call__(self, items: list[str]) -> Any:
        """Return the vector of each text, as the rows of an array."""
        return self._model.encode(items, **_for_one_pass(items), **self._encode)


class PairScorer:
    """Scores a batch of pairs of texts in one pass: `CrossEncoder.predict`.

    Args:
        model: The name or the folder of a model, which each worker loads, or a loaded model.
        load: Arguments of `CrossEncoder`.
        predict: Arguments of its `predict`.
    """

    def __init__(
        self,
        model: "str | PathLike[str] | Any",
        *,
        load: Mapping[str, Any] | None = None,
        predict: Mapping[str, Any] | None = None,
    ) -> None:
        if isinstance(model, str | PathLike):
            from sentence_transformers import CrossEncoder

            model = CrossEncoder(str(model), **load or {})
        self._model = model
        self._predict = dict(predict or {})

    def __call__(self, items: list[tuple[str, str]]) -> Any:
        """Return the score of each pair; its scores, if the model has several labels."""
        return self._model.predict(items, **_for_one_pass(items), **self._predict)


def _for_one_pass(items: list[Any]) -> dict[str, Any]:
    return {"batch_size": len(items), "show_progress_bar": False}
