"""Python values as the payload of one frame: pickle 5, large buffers laid beside it uncopied.

Only for the socket pair that a worker process inherits from us: what can write to a stream of
pickles can run code here, so nothing with a name or a port ever speaks this format.
"""

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from adaptive_batching.errors import BatchFunctionError, HandlerError, RemoteError
from adaptive_batching.exception_text import describe, name_of, trace
from adaptive_batching.wire.frames import Part
from adaptive_batching.workers.handler.device import DeviceLost, check_device
from adaptive_batching.workers.handler.results import (
    CallRaised,
    exit_as_error,
    hold_exceptions,
    honest,
    merge,
)
from adaptive_batching.workers.process.frame_layout import (
    ONLY_A_PICKLE,
    MalformedFrame,
    find,
    lay_out,
)
from adaptive_batching.workers.process.plain_arrays import (
    ONLY_ARRAYS,
    begins_with_array,
    find_arrays,
    lay_out_arrays,
)
from adaptive_batching.workers.process.shared_memory import SharedMemory

# What pickling a value may raise, which runs the value's own code; Ctrl-C and a cancelled task are
# the program's own.
_OF_ITS_OWN_CODE = (Exception, SystemExit, GeneratorExit)
_WORTH_A_BUFFER = 4096  # bytes; below, one more copy is cheaper than one more part


@dataclass(frozen=True, slots=True)
class Raised:
    """The answer in the place of results: what the handler raised.

    Attributes:
        error: It, or what stands in for it.
    """

    error: Exception


def pack(value: object, memory: SharedMemory | None = None) -> list[Part]:
    """Pickle a value into the parts of one payload, with large buffers in `memory`, if any.

    Raises:
        Exception: Whatever pickling it raised.
    """
    if memory is not None and begins_with_array(value):
        parts = lay_out_arrays(value, memory)  # type: ignore[arg-type]
        if parts is not None:
            return parts
    buffers: list[memoryview] = []

    def stays_in_band(buffer: pickle.PickleBuffer) -> bool:
        view = buffer.raw()
        if view.nbytes < _WORTH_A_BUFFER:
            return True
        buffers.append(view)
        return False

    pickled = pickle.dumps(value, protocol=5, buffer_callback=stays_in_band)
    return lay_out(pickled, buffers, memory) if buffers else [ONLY_A_PICKLE, pickled]


def unpack(payload: bytearray, memory: SharedMemory | None = None) -> Any:
    """Read what `pack` wrote; arrays are laid over `payload` or `memory`, not copied.

    Raises:
        MalformedFrame: The payload names bytes that are not there.
        Exception: Whatever unpickling it raised.
    """
    if payload.startswith(ONLY_A_PICKLE):
        pickled = memoryview(payload)[len(ONLY_A_PICKLE) :]
        return pickle.loads(pickled)  # noqa: S301 - from our own child only
    if payload.startswith(ONLY_ARRAYS):
        return find_arrays(payload, memory)
    pickled, buffers = find(payload, memory)
    return pickle.loads(pickled, buffers=buffers)  # noqa: S301 - from our own child only


def pack_items(
    items: list[Any], memory: SharedMemory | None = None
) -> tuple[list[Part], dict[int, HandlerError]]:
    """Pack a batch; items that can't be pickled are left out and named by their positions."""
    try:
        return pack(items, memory), {}
    except _OF_ITS_OWN_CODE:
        refused = {
            index: HandlerError(f"an item of type {name_of(type(item))} can't be sent to a process")
            for index, item in enumerate(items)
            if not _can_be_packed(item)
        }
        sendable = [item for index, item in enumerate(items) if index not in refused]
        return pack(sendable, memory), refused


def unpack_items(payload: bytearray, memory: SharedMemory | None = None) -> list[Any]:
    """Read a batch in the worker; what can't be read there is no fault of the handler.

    Raises:
        HandlerError: An item can't be unpickled here.
        MalformedFrame: The payload names bytes that are not there.
    """
    try:
        return unpack(payload, memory)  # type: ignore[no-any-return]
    except (MalformedFrame, MemoryError):
        raise
    except _OF_ITS_OWN_CODE as error:
        msg = f"an item can't be unpickled in the worker process: {describe(error)}"
        raise HandlerError(msg) from error


def pack_results(results: Sequence[Any], memory: SharedMemory | None = None) -> list[Part]:
    """Pack what a handler returned, as the answer that `unpack_answer` reads.

    An exception stands in the place of a result that can't be pickled, and names its type.

    Raises:
        DeviceLost: Results can't be fetched from the GPU any more.
    """
    if type(results) in {list, tuple} and hold_exceptions(results):
        errors = {id(r): r for r in results if isinstance(r, BaseException)}
        sendable = {key: _stand_in(error) for key, error in errors.items()}
        results = [sendable.get(id(r), r) for r in results]
    try:
        return pack(results, memory)
    except _OF_ITS_OWN_CODE:
        check_device()  # results on a GPU are fetched only now
        return pack([r if _can_be_packed(r) else _unsendable(r) for r in results], memory)


def pack_error(error: BaseException) -> list[Part]:
    """Pack what a handler raised, with its traceback as a note; can't fail."""
    error = honest(error)
    try:
        return pack(Raised(_noted(error)))
    except BaseException:  # noqa: BLE001 - it can be pickled only so many times
        return pack(Raised(RemoteError(describe(error))))


def _stand_in(error: BaseException) -> Exception:
    """What stands for an error in the place of a result."""
    return CallRaised(_noted(honest(error.error))) if type(error) is CallRaised else portable(error)


def _noted(error: BaseException) -> Exception:
    """What a call raised, with its traceback as a note, or what stands for it."""
    note = f"In the worker process:\n{trace(error)}"
    try:
        stand_in = portable(error)
        stand_in.add_note(note)
        pack(stand_in)
    except BaseException:  # noqa: BLE001 - it takes no note, or can be pickled only once
        stand_in = RemoteError(describe(error))
        stand_in.add_note(note)
    return stand_in


def unpack_answer(payload: bytearray, memory: SharedMemory | None = None) -> Any:
    """Return the results, or raise what the handler raised.

    Raises:
        MalformedFrame: The answer names bytes that are not there.
        RemoteError: The answer can't be unpickled here.
        Exception: What the handler raised.
    """
    try:
        value = unpack(payload, memory)
    except MalformedFrame:
        raise
    except _OF_ITS_OWN_CODE as error:
        msg = f"the worker's answer can't be unpickled here: {describe(error)}"
        raise RemoteError(msg) from error
    if type(value) is Raised:
        raise value.error
    return value


def unpack_beside(
    payload: bytearray,
    refused: dict[int, HandlerError],
    expected: int,
    memory: SharedMemory | None = None,
) -> Sequence[Any]:
    """As `unpack_answer`, with the errors of items that could not be sent in their places.

    Raises:
        MalformedFrame: The answer names bytes that are not there.
        DeviceLost: The worker has lost its GPU.
    """
    if not refused:
        return unpack_answer(payload, memory)  # type: ignore[no-any-return]
    own = [refused.get(index) for index in range(expected)]
    try:
        results = unpack_answer(payload, memory)
    except (MalformedFrame, DeviceLost):
        raise
    except Exception as error:  # noqa: BLE001  the handler raised, but not over those
        results = [CallRaised(error)] * (expected - len(refused))
    return merge(own, results)


def portable(error: BaseException) -> Exception:
    """Return the exception if the other side can have it, or else one that says what it was."""
    if not isinstance(error, Exception):
        # an exit must end neither the worker nor, brought over, the program that asked it
        return exit_as_error(error)
    try:
        copy = pickle.loads(pickle.dumps(error, protocol=5))  # noqa: S301 - our own
    except BaseException:  # noqa: BLE001 - pickling runs the exception's own code
        return RemoteError(describe(error))
    return error if type(copy) is type(error) else RemoteError(describe(error))


def _unsendable(result: object) -> BatchFunctionError:
    msg = f"a result of type {name_of(type(result))} can't be sent from its worker process"
    return BatchFunctionError(msg)


def _can_be_packed(value: object) -> bool:
    try:
        pack(value)
    except _OF_ITS_OWN_CODE:
        return False
    return True
