"""What a handler may return: as many results as there were items, in their order."""

import asyncio
import signal
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from adaptive_batching.errors import BatchFunctionError, BatchingError, RemoteError
from adaptive_batching.exception_text import describe, message_of, qualname_of

R = TypeVar("R")

FAILURES = (Exception, SystemExit, asyncio.CancelledError)
"""Exceptions of a handler's own code: they fail the items of that call, and no others.

Anything else, such as Ctrl-C, ends what runs here; so does the cancellation of a batch, which
`is_stopped` tells from one that the handler only waited for.
"""

_OUT_OF_MEMORY = frozenset({"MemoryError", "OutOfMemoryError"})  # Python's; PyTorch's and CuPy's


class CallRaised(Exception):
    """In the place of an item's result: a call raised that the item was in, maybe over another one.

    Where a batch is not one call, or some of its items are in none, each item has its own outcome:
    a result, an error of its own, or this. Between workers and dispatcher only: callers get the
    exception that it carries.

    Attributes:
        error: What the call raised.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error

    def __str__(self) -> str:
        return str(self.error)


def raised_by_calls(results: object) -> Sequence[BaseException]:
    """What calls raised that items of a batch were in, each once; none if all of it returned."""
    if type(results) is not list or CallRaised not in set(map(type, results)):
        return ()
    errors = [each.error for each in results if type(each) is CallRaised]
    return [*{id(error): error for error in errors}.values()]


def hold_exceptions(results: Iterable[Any]) -> bool:
    """Whether some results are exceptions; a batch has many results and few types."""
    for kind in set(map(type, results)):  # noqa: SIM110 - half the time of any()
        if issubclass(kind, BaseException):
            return True
    return False


def honest(error: BaseException) -> BaseException:
    """The error, or what stands for one that hides its class: to ask what it is could raise."""
    try:
        if error.__class__ is type(error):
            return error
    except BaseException:  # noqa: BLE001, S110 - whatever its own code raises, it is no answer
        pass
    return BatchFunctionError(
        f"the handler raised a {qualname_of(type(error))} that hides its class"
    )


def ran_out_of_memory(error: BaseException) -> bool:
    """Whether a handler ran out of memory, by the name of what it raised: PyTorch may not be here.

    What came from another process and could not be rebuilt begins with that name.
    """
    if isinstance(error, RemoteError):
        return message_of(error).partition(":")[0].rpartition(".")[2] in _OUT_OF_MEMORY
    return not _OUT_OF_MEMORY.isdisjoint(map(qualname_of, type(error).__mro__))


def is_ctrl_c(error: BaseException) -> bool:
    """Whether an exception comes from the keyboard, and is not the program's own.

    Ctrl-C raises in its functions only where nothing else is set for its signal: `asyncio.run` and
    servers end in ways of their own.
    """
    if not isinstance(error, KeyboardInterrupt):
        return False
    return signal.getsignal(signal.SIGINT) is signal.default_int_handler


def ask(function: Callable[[Any], R], item: Any, blamed: type[BatchingError], expected: str) -> R:
    """What a function of the program says of an item.

    That it exits, say, is an error as any other: neither the program nor its server ends over it.
    What it raises of this library's own errors passes: an `InvalidItem` puts the blame on the item.

    Args:
        function: The function.
        item: What it is asked about.
        blamed: The error if it raises.
        expected: What is said of it then, before what it raised.
    """
    try:
        return function(item)
    except BatchingError:
        raise
    except BaseException as error:
        if is_ctrl_c(error):
            raise
        raise blamed(f"{expected}, which raised {describe(error)}") from error


def is_cancelled() -> bool:
    """Whether the present task is to end."""
    task = asyncio.current_task()
    return task is not None and bool(task.cancelling())


def is_stopped(error: BaseException) -> bool:
    """Whether an awaited call ended because its batch is not wanted any more."""
    return isinstance(error, asyncio.CancelledError) and is_cancelled()


def exit_as_error(error: BaseException) -> BatchFunctionError:
    """What callers get for an exit of the handler, which would end them, or the event loop."""
    named = BatchFunctionError(f"the handler raised {describe(error)} instead of returning results")
    named.__cause__ = error
    return named


def merge(own: Sequence[BaseException | None], results: Iterable[Any]) -> list[Any]:
    """Put the items' own errors into their places among the results of the others."""
    answers = iter(results)
    return [next(answers) if error is None else error for error in own]


def check_results(value: object, expected: int, handler: str = "") -> Sequence[Any]:
    """Return `value` as a sequence of `expected` results; arrays become lists of their rows.

    Args:
        value: What a handler returned.
        expected: How many items it got.
        handler: Its name, for the message; "" where that is not known.

    Raises:
        BatchFunctionError: It is none, or has another length.
    """
    results = value if type(value) is list else as_sequence(value, expected, handler)
    if len(results) != expected:
        msg = f"expected {expected} results for a batch of {expected}, got {len(results)}"
        raise BatchFunctionError(_named(handler, msg))
    return results


def as_sequence(value: object, expected: int, handler: str = "") -> Sequence[Any]:
    """Return a value as `sequence_of` does, unless it is a tuple.

    A tuple is rather what a model returns, `(labels, scores)`, than a result for each item, and two
    callers would get one half each.

    Raises:
        BatchFunctionError: It is no sequence, or a tuple.
    """
    sequence = None if isinstance(value, tuple) else sequence_of(value)
    if sequence is not None:
        return sequence
    cure = "one dict for each item" if isinstance(value, dict) else "one result for each item"
    msg = f"expected a list of {expected} results, got {qualname_of(type(value))}"
    raise BatchFunctionError(_named(handler, f"{msg}: return a list with {cure}"))


def _named(handler: str, fault: str) -> str:
    return f"{handler}: {fault}" if handler else fault


def sequence_of(value: object) -> Sequence[Any] | None:
    """Return a list or tuple as it is, another sequence as a list, an array as that of its rows.

    Returns:
        None if it is none of these: a text is one value, and so is a dict.
    """
    if type(value) in {list, tuple}:
        return value  # type: ignore[return-value]
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray | memoryview):
        return list(value)  # its length is what it holds, whatever it says
    if hasattr(value, "__array__"):
        array = value.__array__()  # a data frame iterates over its columns, its array over rows
        if array.ndim:
            return list(array)
    return None
