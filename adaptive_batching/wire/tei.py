"""Hugging Face's Text Embeddings Inference: `/embed`, `/embed_sparse`, `/embed_all`, `/predict`.

`/rerank` compares texts with one query and is passed on, as is all else.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from adaptive_batching.wire.exchange import Message, Request, goes_as_it_came
from adaptive_batching.wire.listed import RowFormat, RowShare, fields_of
from adaptive_batching.wire.splice import NotCuttable, Raw, elements, joined, members
from adaptive_batching.wire.text_inputs import first_byte, read_array, read_inputs, rows_of

_EMBED = frozenset({"/embed", "/embed_sparse", "/embed_all"})
_PREDICT = "/predict"


class PredictShare(RowShare, frozen=True):
    """A request to classify.

    Attributes:
        single: Whether it is a text or a pair of its own, whose answer is not in a list.
    """

    single: bool


class TextEmbeddings(RowFormat[RowShare]):
    """Embeddings and classes of texts."""

    def wants(self, method: str, path: str) -> bool:
        """Whether it takes texts that have nothing to do with each other."""
        return method == "POST" and (path in _EMBED or path == _PREDICT)

    def read(self, request: Request) -> RowShare:
        """Understand a request; see `Format.read`."""
        beside = members(request.message.body, bounded=True, readings=2)
        texts = beside.pop("inputs", b"")
        if request.path == _PREDICT:
            single, items = _to_classify(texts)
            rows = rows_of(beside, "inputs", items)
            return PredictShare(*fields_of(request, rows, ()), single)
        kind, items = read_inputs(texts)
        return RowShare(*fields_of(request, rows_of(beside, "inputs", items), (), kind))

    def split(self, shares: Sequence[RowShare], answer: Message) -> list[Message]:
        """To each share its own results; one alone without a list around it, if that is its way.

        Raises:
            Unsplittable: There is not a result for each text.
        """
        if goes_as_it_came(shares):
            return [answer]
        parts = super().split(shares, answer)
        return [
            Message(bytes(*elements(part.body)), part.headers)
            if isinstance(share, PredictShare) and share.single
            else part
            for share, part in zip(shares, parts, strict=True)
        ]

    def repeated(self, share: RowShare, place: int, times: int) -> RowShare:
        """Return a share of one of its texts, so many times, whose results are a list."""
        repeated = super().repeated(share, place, times)
        return replace(repeated, single=False) if isinstance(share, PredictShare) else repeated


def _to_classify(text: Raw) -> tuple[bool, Sequence[Raw]]:
    """Whether it is a text or pair of texts of its own, and texts and pairs, each in an array.

    Raises:
        NotCuttable: It is nothing of the kind.
    """
    if first_byte(text) == b'"':
        return True, [joined([text])]
    kind, items = read_array(text)
    if kind == "arrays":
        return False, items
    if kind != "strings" or len(items) > 2:
        raise NotCuttable("expected a text, a pair of texts, or an array of arrays of these")
    return True, [text]
