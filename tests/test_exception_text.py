"""Exceptions that break whatever prints them."""

import logging
from typing import Any, NoReturn

import pytest

from adaptive_batching.exception_text import (
    Unprintable,
    describe,
    exc_info,
    name_of,
    printable,
    trace,
)
from tests.odd_exceptions import of_an_odd_kind

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


class Verbose(ValueError):
    """Has a message of a million characters, and a short `repr`."""

    def __str__(self) -> str:
        return "x" * 10**6


def test_a_class_is_named_whatever_its_metaclass_does() -> None:
    """The name is asked of `type`; the log line and the traceback of such an error have it."""
    error = caught(of_an_odd_kind("bad"))
    name = "tests.odd_exceptions.of_an_odd_kind.<locals>.OfAnOddKind"
    assert describe(error) == f"{name}: bad"
    assert repr(printable(error)) == f"Unprintable('{name}: bad')"
    assert f"{name}: bad" in trace(error)


def test_a_class_without_a_module_is_named() -> None:
    """What runs without a module makes one that has none, and others say that it is a number."""
    made: dict[str, Any] = {}
    exec("Odd = type('Odd', (ValueError,), {})", {}, made)
    assert name_of(made["Odd"]) == "Odd"
    assert name_of(type("Odd", (ValueError,), {"__module__": 7})) == "Odd"
    assert name_of(KeyError) == "KeyError"


@pytest.mark.parametrize("error", [ValueError("x" * 10**6), Verbose()])
def test_a_log_line_says_the_beginning_of_a_long_message(error: BaseException) -> None:
    """Then how much was left out; the traceback keeps the frames, and a long cause is left out."""
    assert describe(error).endswith("x… (990000 more characters)")
    for raised in (caught(error), caught(KeyError("outer"), cause=error)):
        record = logging.LogRecord("log", 40, __file__, 1, "%r", (printable(raised),), None)
        assert len(record.getMessage()) < 11_000
        assert len(trace(raised)) < 12_000
        assert "in caught" in trace(raised)


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
