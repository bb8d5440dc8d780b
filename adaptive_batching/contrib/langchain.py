"""Embeddings of LangChain over a batched function: texts of all callers share batches."""

from collections.abc import Sequence
from typing import Any

from adaptive_batching.batched_function import Batched

__all__ = ["batched_embeddings"]


def batched_embeddings(documents: Batched[str, Any], query: Batched[str, Any] | None = None) -> Any:
    """Return LangChain's `Embeddings` that embed by batched functions of one text.

    The synchronous methods are for other threads than the event loop's, on which `async with
    documents:` was entered; on the loop, await `aembed_documents` and `aembed_query`.

    Args:
        documents: Embeds a text of a store.
        query: Embeds what is searched for; as `documents` does, if nothing is said.
    """
    asked = documents if query is None else query

    class BatchedEmbeddings(_base()):  # type: ignore[misc]
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [*map(_floats, documents.map_from_thread(texts))]

        def embed_query(self, text: str) -> list[float]:
            return _floats(asked.call_from_thread(text))

        async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
            return [*map(_floats, await documents.map(texts))]

        async def aembed_query(self, text: str) -> list[float]:
            return _floats(await asked(text))

    return BatchedEmbeddings()


def _base() -> type:
    """LangChain's own class; without LangChain, an object with the same methods will do."""
    try:
        from langchain_core.embeddings import Embeddings
    except ModuleNotFoundError:
        return object
    return Embeddings  # type: ignore[no-any-return]


def _floats(vector: Sequence[float]) -> list[float]:
    return [*map(float, vector)]
