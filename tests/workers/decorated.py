"""A handler that is decorated where it stands, and asks for cores."""

import os

from adaptive_batching import batched

TWO_CORES = sorted(os.sched_getaffinity(os.getppid()))[:2]


@batched(max_batch_size=1, workers=len(TWO_CORES), cpus=TWO_CORES)
class Pinned:
    """Says where it runs."""

    def __call__(self, items: list[int]) -> list[list[int]]:
        return [sorted(os.sched_getaffinity(0))]
