"""The bytes-to-bytes handler of a worker: a batch comes as a payload, its answer goes as one."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from adaptive_batching.wire.frames import Part
from adaptive_batching.workers.handler import handler as handlers
from adaptive_batching.workers.handler.device import DeviceLost, check_device
from adaptive_batching.workers.handler.results import check_results
from adaptive_batching.workers.process.plain_arrays import (
    begins_with_array,
    find_untouched,
    hand_back,
)
from adaptive_batching.workers.process.serialization import (
    pack,
    pack_error,
    pack_results,
    unpack_items,
)
from adaptive_batching.workers.process.shared_memory import SharedMemory

_Call = Callable[[list[Any]], Any]


class WorkerLoop:
    """Builds a handler and answers payloads with it, one at a time.

    Whatever the handler does, short of ending the process, becomes an answer.

    Args:
        runner: Of the loop that async handlers run on.
        memory: Where large arrays come and go, if there is such a place.
    """

    def __init__(self, runner: asyncio.Runner, memory: SharedMemory | None = None) -> None:
        self._runner = runner
        self._memory = memory
        self._call: _Call = _not_prepared
        self._name = ""

    def prepare(
        self, load: Callable[[], tuple[Any, Callable[[_Call], _Call] | None]]
    ) -> list[Part]:
        """Build and warm up what `load` returns: a handler, and what to wrap it in."""
        try:
            handler, wrap = load()
            self._name = handlers.name_of(handler)
            call = handlers.ready(handler, self._runner)
            self._call = wrap(call) if wrap else call
        except BaseException as error:  # noqa: BLE001 - the other side is to know
            return pack_error(error)
        return pack(None)

    def answer(self, payload: bytearray) -> list[Part]:
        """Run one batch."""
        try:
            answer = self._run(payload)  # from here on, only what kept the items sees them
            return answer() if callable(answer) else answer
        except BaseException as error:  # noqa: BLE001 - an exit, too, is an answer
            return pack_error(_or_lost(error))

    def _run(self, payload: bytearray) -> list[Part] | Callable[[], list[Part]]:
        memory = self._memory
        items = unpack_items(payload, memory)
        size = len(items)  # the list is the handler's, which may change it
        value = self._call(items)
        results = check_results(value, size, self._name)
        check_device(results)
        if memory is not None and memory.borrows and begins_with_array(results):
            untouched = find_untouched(results, memory)  # type: ignore[arg-type]
            if untouched is not None:
                return partial(hand_back, untouched, memory)
        if type(value) is not list and hasattr(value, "__array__"):
            results = value.__array__()  # whole, it travels as one buffer
        return pack_results(results, memory)


def _or_lost(error: BaseException) -> BaseException:
    """The error, or that it has left this process without its GPU."""
    if isinstance(error, DeviceLost):
        return error
    try:
        check_device()
    except DeviceLost as lost:
        lost.__cause__ = error
        return lost
    return error


def _not_prepared(items: list[Any]) -> Any:
    msg = f"a worker must be prepared before it can take a batch of {len(items)}"
    raise RuntimeError(msg)
