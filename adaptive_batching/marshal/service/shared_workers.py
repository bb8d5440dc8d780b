"""Workers that several endpoints of a service share: each has all their handlers built."""

from collections.abc import Sequence
from dataclasses import dataclass
from inspect import isclass
from typing import Any

from adaptive_batching.core import PolicyLike, make_policy
from adaptive_batching.keywords import names_keywords
from adaptive_batching.workers.place import place
from adaptive_batching.workers.placement import Placement


@names_keywords
@dataclass(frozen=True, slots=True, eq=False)
class SharedWorkers:
    """Workers for several endpoints: give the same object to each as its `workers`.

        small = SharedWorkers(2)

        @service.endpoint("/language", workers=small, max_latency=0.05)
        class Language: ...

        @service.endpoint("/sentiment", workers=small, max_latency=0.5)
        class Sentiment: ...

    Each worker builds all handlers, and runs one batch at a time, of one endpoint. One scheduler
    decides whose: batches of different endpoints don't mix, how long they take is learned for each,
    and when a worker is free, deadlines are compared across all of them.

    Attributes:
        workers: How many, or where, as for an endpoint; processes if one of the handlers is a
            class. They can't be on other machines, nor started by others.
        cpus: The core, or the list of cores, of each process.
        policy: When a batch leaves, whichever endpoint's it is.
    """

    workers: int | str | Placement = 1
    cpus: Sequence[int | Sequence[int]] | None = None
    policy: PolicyLike = "cork"

    def __post_init__(self) -> None:
        make_policy(self.policy)

    def placement(self, handlers: Sequence[Any]) -> Placement:
        """Where some handlers run.

        Raises:
            ValueError: `workers` names nothing, or cores are named for what is no process.
        """
        example = next(filter(isclass, handlers), handlers[0])
        return place(example, self.workers, self.cpus)
