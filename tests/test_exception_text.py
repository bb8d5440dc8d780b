"""Exceptions that break whatever prints them."""

import logging
from typing import Any, NoReturn

import pytest

from adaptive_batching.exception_text import Unprintable, describe, exc_info, printable, trace

PROPERTIES = ["__class__", "__traceback__", "__cause__", "__notes__"]
METHODS = ["__bool__", "__len__", "__str__", "__repr__", "__getattribute__"]


def without(name: str, raised: type[BaseException] = RuntimeError) -> BaseException:
    """An exception that raises another where this method or property of it is asked for."""

    def fail(*_: Any) -> NoReturn:
        raise raised(name)

    members = {name: property(fail) if name in PROPERTIES else fail}
    return type(f"Without{name}", (ValueError,), members)("bad")  # type: ignore[no-any-return]


def caught(error: BaseException, cause: BaseException | None = None) -> BaseException:
    """The exception with the frames that it gets where it is raised."""
    try:
        raise error from cause  # noqa: TRY301
    except BaseException as raised:  # noqa: BLE001
        return raised


@pytest.mark.parametrize("raised", [RuntimeError, SystemExit])
@pytest.mark.parametrize("name", PROPERTIES + METHODS)
def test_logging_formats_whatever_was_raised(name: str, raised: type[BaseException]) -> None:
    """Neither the exception itself nor another that it caused raises anything again."""
    broken = without(name, raised)
    for error in (caught(broken), caught(KeyError("outer"), cause=broken)):
        arguments = ("%r", (printable(error),), exc_info(error))
        record = logging.LogRecord("log", logging.ERROR, __file__, 1, *arguments)
        assert type(error).__name__ in logging.Formatter().format(record)
        assert type(error).__name__ in trace(error)


def test_an_exception_that_can_be_printed_stays_what_it_is() -> None:
    """Programs that collect errors get the object itself and its frames."""
    error = caught(ValueError("bad"))
    assert exc_info(error) == (ValueError, error, error.__traceback__)


def test_the_stand_in_names_the_class_and_keeps_the_frames() -> None:
    """An operator reads what was raised and where."""
    error = caught(without("__repr__"))
    shown = printable(error)
    assert isinstance(shown, Unprintable)
    assert str(shown).endswith("Without__repr__: bad")
    assert shown.__traceback__ is error.__traceback__
    assert describe(without("__str__")).endswith("Without__str__: (its message can't be printed)")
