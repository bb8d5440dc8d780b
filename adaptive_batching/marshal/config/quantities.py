"""Types of settings, how files, variables and options write them, and their metadata."""

import reprlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import inspect

from adaptive_batching.core import Limits
from adaptive_batching.errors import SettingError
from adaptive_batching.marshal.checks import check_header_name
from adaptive_batching.units import parse_bytes, parse_duration, parse_share

PREFIX = "ADAPTIVE_BATCHING_ROUTES_"
"""The prefix of variables that stand for keys of a file of routes."""
SHORT = reprlib.Repr()
SHORT.maxstring = 100
_UNITS = {30: "GiB", 20: "MiB", 10: "KiB", 0: ""}

Count = Annotated[int, msgspec.Meta(ge=1, le=10**9)]
Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]
Text = Annotated[str, msgspec.Meta(min_length=1)]


class Duration(float):
    """A positive number of seconds, written with a unit: `100ms`."""


class Delay(Duration):
    """Seconds from 0 on, written with a unit: `0s`."""


class Bytes(int):
    """Bytes, written as a number or with a unit: `8MiB`."""


class Share(float):
    """A share of at most 1, written as a percentage: `0.1%`."""


class Header(str):
    """The name of a header: `X-Tenant`."""

    __slots__ = ()


class Sizes(tuple[int, ...]):
    """Sizes of batches in ascending order, written with commas: `1,2,4,8`, or as a list."""

    __slots__ = ()


def means(meaning: str, **shown: Any) -> msgspec.Meta:
    """Return the metadata of a setting's declaration; help texts and docs are made from it.

    Args:
        meaning: In a line or two.
        shown: `option`: its option, if that has another name, or None for none. `metavar`,
            `choices`: of that option. `default`: in words. `section`: of the help, where this
            field begins one. `tunable`: whether a route that is at work can change it.
    """
    return msgspec.Meta(extra={"meaning": meaning, **shown})


def bare(declared: Any) -> Any:
    """Strip metadata and None from a type that msgspec has inspected."""
    if isinstance(declared, inspect.Metadata):
        return bare(declared.type)
    if isinstance(declared, inspect.UnionType):
        [declared] = [each for each in declared.types if not isinstance(each, inspect.NoneType)]
    return declared


def written(value: object) -> str:
    """Write a value as a file or an option would."""
    match value:
        case Bytes():
            power = next(each for each in (30, 20, 10, 0) if value % 2**each == 0)
            return f"{value >> power}{_UNITS[power]}"
        case Duration():
            return f"{value:g}s" if value >= 1 else f"{value * 1e3:g}ms"
        case Share():
            return f"{100 * value:g}%"
        case Sizes():
            return ",".join(map(str, value))
        case bool():
            return str(value).lower()
        case _:
            return str(value)


def quantity(kind: type, value: object) -> object:
    """Read a value of a type of this module, such as a duration with its unit; for msgspec.

    Raises:
        ValueError: It is not written so.
    """
    if isinstance(value, kind):
        return value
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    try:
        return kind(_PARSERS[kind](text))
    except ValueError as error:
        expected, _, _ = str(error).partition(", got ")  # a text, whatever it was in the file
        raise ValueError(f"{expected}, got {SHORT.repr(value)}") from error


def _duration(text: str) -> float:
    seconds = parse_duration(text)
    if not seconds:
        raise ValueError(f"expected a positive number of seconds, got {text!r}")
    return seconds


def _share(text: str) -> float:
    share = parse_share(text)
    if share > 1:
        raise ValueError(f"expected at most 100%, got {text!r}")
    return share


def _header(text: str) -> str:
    try:
        check_header_name("", text)
    except SettingError as error:
        raise ValueError(error.fault) from error
    return text


def _sizes(text: str) -> tuple[int, ...]:
    try:
        return Limits(sizes=tuple(map(int, text.split(",")))).sizes
    except ValueError:
        expected = (
            "expected items of batches, each more than the one before and none above 2^31, such as "
            "1,2,4,8"
        )
        raise ValueError(f"{expected}, got {text!r}") from None


_PARSERS: Mapping[type, Callable[[str], Any]] = {
    Bytes: parse_bytes,
    Delay: parse_duration,
    Header: _header,
    Path: Path,
    Duration: _duration,
    Share: _share,
    Sizes: _sizes,
}
