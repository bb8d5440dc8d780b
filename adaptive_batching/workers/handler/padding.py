"""Pads: items that fill a batch up to a size that its handler takes.

They are made where the handler runs, after what each item goes through by itself, and their results
end there: no pad crosses to another process, none is preprocessed, and no caller sees one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from adaptive_batching.workers.handler.handler import is_async, name_of
from adaptive_batching.workers.handler.results import check_results

if TYPE_CHECKING:  # a worker process that needs no pads is started without the core
    from adaptive_batching.core import Limits

_Call = Callable[[list[Any]], Any]


@dataclass(frozen=True, slots=True)
class Padding:
    """Turns a handler that takes batches of a few sizes into one that takes batches of any size.

    Attributes:
        limits: Say which sizes it takes; see `Limits.padded`.
        pad: Takes the last item of a batch and returns what it is filled up with; None repeats
            that item, a cheap one where costs add up: see `Costs.filler`. One object stands in all
            places: a handler must not change it in place.
    """

    limits: "Limits"
    pad: Callable[[Any], Any] | None = None

    def __call__(self, handler: _Call) -> _Call:
        """Turn a handler, ready to be called with a list; it is awaited if the handler is."""
        name = name_of(handler)
        if is_async(handler):

            async def run_awaited(items: list[Any]) -> Any:
                filled = items + self.pads(items)
                sizes = len(items), len(filled)  # the list is the handler's, which may change it
                return cut(await handler(filled), *sizes, name)

            return run_awaited

        def run(items: list[Any]) -> Any:
            filled = items + self.pads(items)
            sizes = len(items), len(filled)
            return cut(handler(filled), *sizes, name)

        return run

    def calls(self, size: int, whole: int) -> list[int]:
        """Items of the calls that run some of a batch by themselves; see `Costs.calls`."""
        costs = self.limits.costs
        return [size] if costs is None else costs.calls(size, whole)

    def pads(self, items: list[Any]) -> list[Any]:
        """What fills up a batch that has these items, of which there is at least one."""
        missing = self.limits.padded(len(items)) - len(items)
        if not missing:
            return []
        last = items[-1]
        return [last if self.pad is None else self.pad(last)] * missing


def cut(value: Any, size: int, filled: int, handler: str) -> Any:
    """Return what a handler returned, without the results of pads; an array stays one.

    Args:
        value: What it returned.
        size: Items without the pads.
        filled: Items with them.
        handler: The handler's name, for messages.

    Raises:
        BatchFunctionError: There are pads, and not as many results as items with them.
    """
    if size == filled:
        return value
    if type(value) is not list and hasattr(value, "__array__"):
        array = value.__array__()
        if array.ndim and len(array) == filled:
            return array[:size]
    return check_results(value, filled, handler)[:size]
