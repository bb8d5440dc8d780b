"""OpenAI's `/v1/embeddings`, which vLLM, TEI, infinity, LitServe and others speak.

Texts come as a string, strings, tokens, or several texts' tokens. Embeddings, in base64 or not, are
handed on as they are; each client's are counted from 0, and it is told its part of what was used.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise

from adaptive_batching.wire.embeddings import read_embeddings
from adaptive_batching.wire.exchange import Message, Request, Unsplittable, goes_as_it_came
from adaptive_batching.wire.listed import RowFormat, RowShare, fields_of
from adaptive_batching.wire.splice import members
from adaptive_batching.wire.text_inputs import Kind, read_inputs, rows_of, weight

_PATH = re.compile(r"(?:/[^/]+)*/embeddings")
_ESTIMATED = {"x-usage-estimated": "true"}
"""Said in answers whose `usage` is a share of the batch's by the lengths of the texts."""


class EmbeddingShare(RowShare, frozen=True):
    """A request of texts.

    Attributes:
        kind: Strings are never mixed with tokens.
    """

    kind: Kind

    @property
    def weight(self) -> int:
        """How much of the work it is."""
        return sum(weight(self.kind, item) for item in self.rows.items)


class OpenAIEmbeddings(RowFormat[EmbeddingShare]):
    """Numbered embeddings of texts."""

    def wants(self, method: str, path: str) -> bool:
        """Whether it is for embeddings, wherever the server has them."""
        return method == "POST" and _PATH.fullmatch(path) is not None

    def read(self, request: Request) -> EmbeddingShare:
        """Understand a request; see `Format.read`."""
        beside = members(request.message.body, bounded=True, readings=2)
        kind, items = read_inputs(beside.pop("input", b""))
        beside.pop("user", None)  # the user does not change what a text means
        rows = rows_of(beside, "input", items)
        return EmbeddingShare(*fields_of(request, rows, ("data",), kind), kind)

    def split(self, shares: Sequence[EmbeddingShare], answer: Message) -> list[Message]:
        """To each share its own embeddings, and its part of what was used.

        Raises:
            Unsplittable: There is not an embedding for each text.
        """
        if goes_as_it_came(shares):
            return [answer]
        found = read_embeddings(answer)
        _check(found.entries, sum(share.size for share in shares))
        spans = pairwise(accumulate((share.size for share in shares), initial=0))
        used = found.counted()
        weights = [share.weight for share in shares]
        exact = shares[0].kind == "tokens" and used.get("prompt_tokens") == sum(weights)
        headers = {**answer.headers, **({} if exact or not used else _ESTIMATED)}
        return [
            Message(found.text(found.entries[begin:end], own), headers)
            for (begin, end), own in zip(spans, _parts(used, weights), strict=True)
        ]

    def join(self, share: EmbeddingShare, answers: Sequence[Message]) -> Message:
        """All embeddings, and all that was used.

        Raises:
            Unsplittable: There is not an embedding for each text.
        """
        pieces = [read_embeddings(answer) for answer in answers]
        entries = [entry for piece in pieces for entry in piece.entries]
        _check(entries, share.size)
        used: Counter[str] = Counter()
        for piece in pieces:
            used.update(piece.counted())
        return Message(pieces[0].text(entries, used), answers[0].headers)


def _check(entries: Sequence[object], expected: int) -> None:
    if len(entries) != expected:
        raise Unsplittable(f"expected {expected} embeddings, got {len(entries)}")


def _parts(used: Mapping[str, int], weights: Sequence[int]) -> list[dict[str, int]]:
    """What each used, so that the parts make the whole."""
    total = sum(weights)
    spans = pairwise(accumulate(weights, initial=0))
    return [
        {name: number * end // total - number * begin // total for name, number in used.items()}
        for begin, end in spans
    ]
