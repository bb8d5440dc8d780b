"""Makes worker processes that all run the same handler, each on its own cores."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from adaptive_batching.errors import UsageError
from adaptive_batching.wire.frames import MAX_LENGTH
from adaptive_batching.workers.handler.handler_reference import (
    HandlerReference,
    HandlerReferences,
    MainScript,
)
from adaptive_batching.workers.handler.pickled import Pickled
from adaptive_batching.workers.pinning import check_cpus, unpinned
from adaptive_batching.workers.process.instructions import Instructions
from adaptive_batching.workers.process.process import ProcessWorker


@dataclass(frozen=True, slots=True)
class ProcessLauncher:
    """A `Launcher` of processes.

    Attributes:
        handler: What runs a batch, or several of which one does.
        wrap: A function that takes the handler, ready to be called with items, and returns what
            to call instead.
        cpus: The cores of each process; None for all of them.
        environment: Tells the variables of each process, beside ours, by its place in the pool.
        most: How many can be made; see `Launcher.most`.
        max_result_bytes: What the results of a batch may take.
        shared_memory: Most bytes of each process in which large arrays cross.
    """

    handler: HandlerReference | HandlerReferences
    wrap: Pickled | None = None
    cpus: Sequence[Sequence[int]] | None = None
    environment: Callable[[int], Mapping[str, str]] | None = None
    most: int | None = None
    max_result_bytes: int = MAX_LENGTH
    shared_memory: int = 0

    async def prepare(self) -> None:
        """See whether this process may start others, and the machine has the cores.

        Raises:
            UsageError: This is a worker process itself.
            ValueError: The machine does not have the cores, or the program does not see the GPUs.
        """
        if MainScript.is_loading():
            msg = (
                "a worker process that imports the program would start workers itself: put what"
                " the program does under `if __name__ == '__main__':`"
            )
            raise UsageError(msg)
        # Not before: workers import the module that asks for the cores, and are pinned to theirs.
        if self.cpus is not None:
            check_cpus([cpu for group in self.cpus for cpu in group])
        for number in range(self.most or 0):
            self._variables(number)

    def launch(self, number: int, on_lost: Callable[[], None]) -> ProcessWorker:
        """Make the process of a place in the pool; see `Launcher.launch`."""
        cpus = tuple(self.cpus[number]) if self.cpus else unpinned()
        instructions = Instructions(
            self.handler,
            self.wrap,
            cpus,
            self._variables(number),
            self.max_result_bytes,
            index=number,
            parent=os.getpid(),
        )
        return ProcessWorker(number, instructions, on_lost, self.shared_memory)

    def _variables(self, number: int) -> Mapping[str, str]:
        return self.environment(number) if self.environment else {}
