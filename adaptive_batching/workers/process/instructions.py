"""The first frame that a worker process gets."""

from dataclasses import dataclass

from adaptive_batching.workers.handler import HandlerReference
from adaptive_batching.workers.multi_handler import HandlerReferences
from adaptive_batching.workers.pickled import Pickled


@dataclass(frozen=True, slots=True)
class Instructions:
    """What a worker process has to know.

    Attributes:
        handler: What it runs batches with.
        wrap: A function that takes the handler, ready to be called, and returns what to call.
        cpus: The cores it may run on; None for all.
        max_result_bytes: What the results of a batch may take.
        parent: The process that started it; the worker never outlives it.
    """

    handler: HandlerReference | HandlerReferences
    wrap: Pickled | None
    cpus: tuple[int, ...] | None
    max_result_bytes: int
    parent: int
