"""What OpenAI's `/v1/embeddings` answers: numbered embeddings, and what they used."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from adaptive_batching.wire.exchange import Message, Unsplittable
from adaptive_batching.wire.splice import NotCuttable, Raw, elements, members, text_of

Entry: TypeAlias = Mapping[str, msgspec.Raw]
_objects = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])


class Embeddings(NamedTuple):
    """An answer.

    Attributes:
        beside: Its members, among them `data` and perhaps `usage`.
        entries: What `data` holds, in the order of their numbers.
        usage: What `usage` holds.
    """

    beside: Mapping[str, msgspec.Raw]
    entries: Sequence[Entry]
    usage: Mapping[str, msgspec.Raw]

    def counted(self) -> dict[str, int]:
        """The numbers in `usage`."""
        texts = {name: bytes(text) for name, text in self.usage.items()}
        return {name: int(text) for name, text in texts.items() if _is_number(text)}

    def text(self, entries: Iterable[Entry], used: Mapping[str, int]) -> bytes:
        """This answer with these entries, numbered from 0, and these numbers in `usage`."""
        data = [{**entry, "index": index} for index, entry in enumerate(entries)]
        told: dict[str, object] = {**self.beside, "data": data}
        if self.usage:
            told["usage"] = {**self.usage, **used}
        return text_of(told)


def read_embeddings(answer: Message) -> Embeddings:
    """Read an answer; entries may stand in any order.

    Raises:
        Unsplittable: It is not what the protocol says.
    """
    try:
        beside = members(answer.body)
        entries = _entries(beside.get("data", b""))
        usage = bytes(beside.get("usage", b"null"))
        used = {} if usage == b"null" else members(usage)
    except NotCuttable as error:
        raise Unsplittable(f"the answer is not cut: {error}") from error
    numbers = [bytes(entry.get("index", b"none")) for entry in entries]
    expected = [b"%d" % index for index in range(len(entries))]
    if numbers != expected:
        if {*numbers} != {*expected}:
            raise Unsplittable(f"expected embeddings numbered from 0 to {len(entries) - 1}")
        entries.sort(key=lambda entry: int(bytes(entry["index"])))
    return Embeddings(beside, entries, used)


def _entries(text: Raw) -> list[dict[str, msgspec.Raw]]:
    try:
        return _objects.decode(text)
    except (msgspec.DecodeError, RecursionError):  # perhaps a NaN, which many servers write
        return [members(entry) for entry in elements(text)]


def _is_number(text: bytes) -> bool:
    return text.isdigit() and len(text) < 19  # larger ones are no numbers of tokens
