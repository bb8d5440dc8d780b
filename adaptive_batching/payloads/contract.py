"""What an endpoint takes and what it answers with: types, and the codecs that they travel in."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from adaptive_batching.errors import InvalidItem
from adaptive_batching.payloads.annotations import declared_types
from adaptive_batching.payloads.codecs import Codec, parse_codecs
from adaptive_batching.payloads.payload import Payload
from adaptive_batching.payloads.schemas import check_schema
from adaptive_batching.payloads.writing import make_converter
from adaptive_batching.wire import strict_json
from adaptive_batching.workers.handler.handler import name_of
from adaptive_batching.workers.handler.warm_up import listed


@dataclass(frozen=True, slots=True)
class Declaration:
    """What the author of an endpoint says of its bodies; None leaves it to the annotations.

    Attributes:
        item: The type of an item.
        result: The type of a result.
        codec: In which codecs items come, the first of them where a client doesn't say.
        result_codec: In which codecs results go; None for those of the items.
    """

    item: Any = None
    result: Any = None
    codec: str | Sequence[str] = Codec.JSON.value
    result_codec: str | Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class Contract:
    """What bodies hold, before and after a handler.

    Attributes:
        item: Those of requests.
        result: Those of answers.
    """

    item: Payload
    result: Payload

    @classmethod
    def of(
        cls,
        declaration: Declaration,
        first: Callable[..., Any],
        last: Callable[..., Any],
        *,
        first_takes_one: bool = False,
        last_takes_one: bool = False,
    ) -> Self:
        """Complete what was declared by the annotations of the handlers.

        Args:
            declaration: What was declared.
            first: The handler that takes the items.
            last: The handler whose results are the answers, often the same.
            first_takes_one: Whether the first is called with one item instead of a list.
            last_takes_one: Whether the last is.

        Raises:
            TypeError: A type can't be validated or described, or its codec can't hold it.
            ValueError: There is no such codec.
        """
        item, result = declaration.item, declaration.result
        if item is None:
            item, _ = declared_types(first, takes_one=first_takes_one)
        if result is None:
            _, result = declared_types(last, takes_one=last_takes_one)
        codecs = parse_codecs("codec", declaration.codec)
        answered = declaration.result_codec
        result_codecs = _of_results(codecs, answered)
        made = cls(
            Payload(codecs, item, name_of(first)), Payload(result_codecs, result, name_of(last))
        )
        _check("item", made.item)
        _check("result", made.result, "" if answered is not None else _HOW_RESULTS_GO)
        return made

    @property
    def has_choice(self) -> bool:
        """Whether each request says in which codecs it and its answer are."""
        return len(self.item.codecs) > 1 or len(self.result.codecs) > 1

    def writes(self, reads: int) -> int:
        """The place of the codec of a result, by that of its item, where a client says nothing."""
        asked, answered = self.item.codecs[reads], self.result.codecs
        return answered.index(asked) if asked in answered else 0

    def check_lists(self) -> None:
        """See to it that a body can hold several items, or several results.

        Raises:
            ValueError: A codec has no lists.
        """
        for parameter, payload in (("codec", self.item), ("result_codec", self.result)):
            for codec in payload.codecs:
                if codec not in _WITH_LISTS:
                    msg = "expected json, msgpack or npy for an endpoint with many=True"
                    raise ValueError(f"{parameter}: {msg}, got {codec.value}")

    def bodies(self, examples: Sequence[Any]) -> tuple[bytes, ...]:
        """Items as clients send them that don't say how.

        Raises:
            TypeError: They are no list, or one has no form in the codec.
            ValueError: One is not of the declared type.
        """
        convert = make_converter(self.item.codecs[0], self.item.kind)
        try:
            return tuple(convert(example) for example in listed(examples))
        except InvalidItem as error:
            raise ValueError(f"examples: expected {self.item.kind}, got {error}") from error

    def shown(self, bodies: Sequence[bytes]) -> list[Any]:
        """Bodies in the first codec as JSON has them, or as text; bytes can't be shown."""
        codec, kind = self.item.codecs[0], self.item.kind
        if codec is Codec.MULTIPART:
            return []
        if codec is Codec.RAW:
            return [body.decode() for body in bodies] if kind is str else []
        read, write = self.item.readers()[0], make_converter(Codec.JSON, kind)
        try:
            return [strict_json.decode(write(read(body))) for body in bodies]
        except (TypeError, ValueError):  # NaN, which only MessagePack and .npy can have
            return []


def _of_results(codecs: tuple[Codec, ...], answered: Any) -> tuple[Codec, ...]:
    """The codecs of results: by default those of the items, and JSON for forms."""
    if answered is None:
        plain = (Codec.JSON if each is Codec.MULTIPART else each for each in codecs)
        return tuple(dict.fromkeys(plain))
    chosen = parse_codecs("result_codec", answered)
    if Codec.MULTIPART in chosen:
        raise ValueError(f"result_codec: expected one that results can have, got {answered!r}")
    return chosen


_WITH_LISTS = {Codec.JSON, Codec.MSGPACK, Codec.NPY}
_HOW_RESULTS_GO = "; results go as items come: to have them go otherwise give result_codec='json'"


def _check(parameter: str, payload: Payload, advice: str = "") -> None:
    """See to it that bodies can be read, written and described."""
    try:
        check_schema(payload.kind)
        payload.readers()
        payload.writers()
    except TypeError as error:
        raise TypeError(f"{parameter}: {error}{advice}") from None
