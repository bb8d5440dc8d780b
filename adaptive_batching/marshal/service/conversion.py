"""Between the bodies that the marshal passes on unread and the values that a handler wants.

It runs where the handler runs, in a worker process as a rule, so that the process that answers all
connections never reads or writes a body.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from adaptive_batching.errors import BatchFunctionError
from adaptive_batching.payloads.codecs import Codec
from adaptive_batching.payloads.payload import Payload
from adaptive_batching.payloads.reading import Read
from adaptive_batching.payloads.writing import Write
from adaptive_batching.pipeline import Stage
from adaptive_batching.pipeline.stage import one_by_one
from adaptive_batching.workers.handler.handler import is_async
from adaptive_batching.workers.handler.items import with_awaited_steps, with_steps

_Call = Callable[[list[Any]], Any]

Tagged = tuple[int, int, bytes]  # which codec reads the body, which writes its result, the body

PLAIN_JSON = Payload((Codec.JSON,))


@dataclass(frozen=True, slots=True)
class Conversion:
    """Turns a handler of values into one of bodies.

    A body that can't be read never reaches the handler, and a result that can't be written harms
    no other: an error stands in its place. The handler is not called with an empty list.

    Attributes:
        item: What bodies hold; None if items come as values.
        result: What answers hold; None if results are left as values.
        tagged: Whether there is a choice of codecs: then items are `Tagged`.
        takes_one: Whether the handler takes one item instead of a list.
    """

    item: Payload | None = PLAIN_JSON
    result: Payload | None = PLAIN_JSON
    tagged: bool = False
    takes_one: bool = False

    def __call__(self, handler: Callable[[Any], Any]) -> _Call:
        """Turn a handler, ready to be called, into one of bodies."""
        call = one_by_one(handler) if self.takes_one else handler
        steps = with_awaited_steps if is_async(call) else with_steps
        readers = self.item.readers() if self.item else []
        writers = self.result.writers() if self.result else []
        if self.tagged:
            return _with_a_choice(call, readers, writers)
        return steps(call, readers[0] if readers else None, writers[0] if writers else None)


def _with_a_choice(call: _Call, readers: Sequence[Read], writers: Sequence[Write]) -> _Call:
    """Each item says which codecs are its own."""

    def read(tagged: Tagged) -> Any:
        reads, _, body = tagged
        return readers[reads](body)

    def written(results: Sequence[Any], items: Sequence[Tagged]) -> list[Any]:
        return [
            result if issubclass(type(result), BaseException) else _attempt(writers[writes], result)
            for (_, writes, _), result in zip(items, results, strict=True)
        ]

    if is_async(call):
        take_awaited = with_awaited_steps(call, read, None)

        async def run_awaited(items: list[Tagged]) -> list[Any]:
            return written(await take_awaited(items), items)

        return run_awaited
    take = with_steps(call, read, None)

    def run(items: list[Tagged]) -> list[Any]:
        return written(take(items), items)

    return run


def _attempt(write: Write, result: Any) -> Any:
    try:
        return write(result)
    except BatchFunctionError as error:
        return error


def conversion_of_stage(
    stage: Stage, number: int, stages: int, item: Payload, result: Payload
) -> Conversion | None:
    """What a stage's handler is put into, the first one's number being 0."""
    read = item if number == 0 else None
    write = result if number == stages - 1 else None
    if read is None and write is None:
        return None
    return Conversion(read, write, takes_one=stage.takes_one)
