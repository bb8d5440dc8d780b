"""The first frame that a worker process gets."""

from collections.abc import Mapping
from dataclasses import dataclass

from adaptive_batching.workers.handler.handler_reference import HandlerReference, HandlerReferences
from adaptive_batching.workers.handler.pickled import Pickled


@dataclass(frozen=True, slots=True)
class Instructions:
    """What a worker process has to know.

    Attributes:
        handler: What it runs batches with.
        wrap: A function that takes the handler, ready to be called, and returns what to call.
        cpus: The cores it may run on; None for all.
        env: Variables of its environment, beside ours; they are there before it reads this.
        max_result_bytes: What the results of a batch may take.
        index: Which of the workers it is, from 0.
        parent: The process that started it; the worker never outlives it.
    """

    handler: HandlerReference | HandlerReferences
    wrap: Pickled | None
    cpus: tuple[int, ...] | None
    env: Mapping[str, str]
    max_result_bytes: int
    index: int
    parent: int
