"""Tells operators that a model pads batches to a few sizes without saying so."""

import asyncio
import logging
from collections.abc import Callable, Hashable
from functools import partial

from adaptive_batching.core import Batch, BatchRecord, Limits, Outcome
from adaptive_batching.core.estimators.steps import LatestBatches, Steps, find_steps

_MOST_KINDS = 32  # of which batches are kept: some 2 MB
_log = logging.getLogger("adaptive_batching")

_Kind = tuple[Hashable, int]  # the batch key, and the worker


class SizeAdvice:
    """Observes one dispatcher, and looks for steps in how long batches of each size take.

    Batches of other keys, and on other workers, may take another time, so that those of each key on
    each worker are looked at by themselves. A look takes some 20 ms: a thread does it, and batches
    go on meanwhile.

    Args:
        label: What the log calls the dispatcher.
        spelled: How its user declares sizes.
    """

    def __init__(self, label: str, spelled: Callable[[Steps], str]) -> None:
        self._label = label
        self._spelled = spelled
        self._latest: dict[_Kind, LatestBatches] = {}  # the kind of the newest batch is the last
        self._steps: Steps | None = None
        self._shown_by: _Kind | None = None

    def batch_ended(self, _: Batch, record: BatchRecord) -> None:
        """Keep how long it took; in another thread, look at those that are kept if it is time.

        Batches of items with costs are left out: their sizes don't say how long they take.
        """
        if record.outcome is not Outcome.DONE or record.cost:
            return
        kind = (record.key, record.worker)
        latest = self._latest.pop(kind, None) or LatestBatches()
        self._latest[kind] = latest
        if len(self._latest) > _MOST_KINDS:
            del self._latest[next(iter(self._latest))]
        if due := latest.observe(record.padded_size, record.duration):
            looking = asyncio.get_running_loop().run_in_executor(None, find_steps, due)
            looking.add_done_callback(partial(self._looked, kind))

    def sentence(self, limits: Limits) -> str:
        """What to declare and why; empty if nothing was found, or if these limits declare it."""
        steps = self._steps
        if steps is None or limits.padded(steps.smaller) >= steps.larger:
            return ""
        return f"{steps}: declare {self._spelled(steps)}"

    def _looked(self, kind: _Kind, looking: "asyncio.Future[Steps | None]") -> None:
        if looking.cancelled():
            return
        before, steps = self._steps, looking.result()
        if steps is not None:
            self._steps, self._shown_by = steps, kind
            if before is None or steps.sizes != before.sizes:
                _log.warning("%s: %s: declare %s", self._label, steps, self._spelled(steps))
        elif kind == self._shown_by:
            self._steps = None
