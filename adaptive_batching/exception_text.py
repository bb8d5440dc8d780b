"""Turns exceptions into text: printing one runs its own code, which may raise anything, even exits.

Logs and messages take from here what they say of an exception that a handler or observer raised.
"""

import traceback
from types import TracebackType
from typing import TypeAlias

_ExcInfo: TypeAlias = tuple[type[BaseException], BaseException, TracebackType | None]

_LONGEST = 10_000  # characters of a message: one may hold a whole batch, and every log line costs
_ON_THE_WAY = (f"{__package__}.", "asyncio.", "importlib", "_frozen_importlib")
_LONGEST_TRACE = 10 * _LONGEST
# What `type` itself knows of a class: asked for as an attribute, a metaclass answers, or raises.
_QUALNAME, _MODULE = type.__dict__["__qualname__"], type.__dict__["__module__"]


class Unprintable(Exception):
    """Stands in a log for an exception that can't be printed, or is too long."""


def qualname_of(kind: type) -> str:
    """Return the name of a class without its module, whatever its metaclass does."""
    return _QUALNAME.__get__(kind)  # type: ignore[no-any-return]


def name_of(kind: type) -> str:
    """Return the name of a class, with its module unless that is `builtins`."""
    try:
        module = _MODULE.__get__(kind)
    except AttributeError:  # deleted
        module = None
    if type(module) is not str or module == "builtins":
        return qualname_of(kind)
    return f"{module}.{qualname_of(kind)}"


def message_of(error: BaseException) -> str:
    """Return what `str` makes of an exception, and of a long text its beginning."""
    try:
        text = str(error)
        left_out = len(text) - _LONGEST
        return text if left_out <= 0 else f"{text[:_LONGEST]}… ({left_out} more characters)"
    except BaseException:  # noqa: BLE001 - whatever its own code raises, it is no message
        return "(its message can't be printed)"


def describe(error: BaseException) -> str:
    """Return the class and the message of an exception."""
    text = message_of(error)
    return f"{name_of(type(error))}: {text}" if text else name_of(type(error))


def printable(error: BaseException) -> BaseException:
    """Return the exception, or `Unprintable` in its place.

    It stands in if the `repr` or the traceback fails or is too long; its own message is short.
    """
    try:
        lines = traceback.format_exception(type(error), error, error.__traceback__)
        fits = max(len(str(error)), len(repr(error))) <= _LONGEST
        if fits and sum(map(len, lines)) <= _LONGEST_TRACE:
            return error
    except BaseException:  # noqa: BLE001, S110 - as above
        pass
    return Unprintable(describe(error)).with_traceback(_frames(error))


def exc_info(error: BaseException) -> _ExcInfo:
    """Return what `logging` takes as `exc_info`; from an exception alone it would ask its class."""
    shown = printable(error)
    return type(shown), shown, shown.__traceback__


def trace(error: BaseException) -> str:
    """Return the traceback of an exception as Python prints it, from the user's code on."""
    kind, shown, frames = exc_info(error)
    return "".join(traceback.format_exception(kind, shown, users_frames(frames) or frames))


def users_frames(frames: TracebackType | None) -> TracebackType | None:
    """Return what remains without the frames of ours, and of Python's, that lead to user code."""
    while frames is not None:
        module = frames.tb_frame.f_globals.get("__name__")
        if not isinstance(module, str) or not module.startswith(_ON_THE_WAY):
            break
        frames = frames.tb_next
    return frames


def begin_in_users_code(error: BaseException) -> None:
    """Take the frames of ours that lead to user code out of the traceback of an exception.

    The traceback of an exception from a worker process is its note, and the frames are all ours.
    """
    try:
        frames = users_frames(error.__traceback__)
        if frames is not None or hasattr(error, "__notes__"):
            error.__traceback__ = frames
    except BaseException:  # noqa: BLE001, S110 - as above
        pass


def _frames(error: BaseException) -> TracebackType | None:
    try:
        return error.__traceback__
    except BaseException:  # noqa: BLE001 - as above
        return None
