"""Turns exceptions into text: printing one runs its own code, which may raise anything, even exits.

Logs and messages take from here what they say of an exception that a handler or observer raised.
"""

import traceback
from types import TracebackType
from typing import TypeAlias

_ExcInfo: TypeAlias = tuple[type[BaseException], BaseException, TracebackType | None]


class Unprintable(Exception):
    """Stands in a log for an exception that can't be printed."""


def name_of(kind: type) -> str:
    """Return the name of a class, with its module unless that is `builtins`."""
    if kind.__module__ == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def message_of(error: BaseException) -> str:
    """Return what `str` makes of an exception."""
    try:
        return str(error)
    except BaseException:  # noqa: BLE001 - whatever its own code raises, it is no message
        return "(its message can't be printed)"


def describe(error: BaseException) -> str:
    """Return the class and the message of an exception."""
    text = message_of(error)
    return f"{name_of(type(error))}: {text}" if text else name_of(type(error))


def printable(error: BaseException) -> BaseException:
    """Return the exception, or `Unprintable` in its place if its `repr` or its traceback fails."""
    try:
        repr(error)
        traceback.format_exception(type(error), error, error.__traceback__)
    except BaseException:  # noqa: BLE001 - as above
        return Unprintable(describe(error)).with_traceback(_frames(error))
    return error


def exc_info(error: BaseException) -> _ExcInfo:
    """Return what `logging` takes as `exc_info`; from an exception alone it would ask its class."""
    shown = printable(error)
    return type(shown), shown, shown.__traceback__


def trace(error: BaseException) -> str:
    """Return the traceback of an exception as Python prints it."""
    return "".join(traceback.format_exception(*exc_info(error)))


def _frames(error: BaseException) -> TracebackType | None:
    try:
        return error.__traceback__
    except BaseException:  # noqa: BLE001 - as above
        return None
