"""What the bodies of an endpoint hold, as it was declared."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import adaptive_batching.payloads.type_pickle  # noqa: F401  a declared type has to travel
from adaptive_batching.payloads.annotations import UNDECLARED
from adaptive_batching.payloads.codecs import Codec
from adaptive_batching.payloads.reading import Read, make_reader
from adaptive_batching.payloads.writing import Write, make_writer


@dataclass(frozen=True, slots=True)
class Payload:
    """What a body holds, before a handler or after it.

    Attributes:
        codecs: In which forms; the first one is meant where a client doesn't say.
        kind: The type of what it holds, or `UNDECLARED`.
        handler: The name of what takes or makes it, for messages.
    """

    codecs: tuple[Codec, ...]
    kind: Any = UNDECLARED
    handler: str = "the handler"

    def readers(self) -> Sequence[Read]:
        """What reads a body, by the place of its codec.

        Raises:
            TypeError: A codec can't hold what is declared.
        """
        return [make_reader(codec, self.kind) for codec in self.codecs]

    def writers(self) -> Sequence[Write]:
        """What writes a body, by the place of its codec.

        Raises:
            TypeError: A codec can't hold what is declared.
        """
        return [make_writer(codec, self.kind, self.handler) for codec in self.codecs]

    def media_types(self) -> Sequence[str]:
        """What bodies are called, by the place of their codec."""
        text = "text/plain; charset=utf-8"
        return [
            text if codec is Codec.RAW and self.kind is str else codec.media_types[0]
            for codec in self.codecs
        ]
