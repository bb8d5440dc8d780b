"""Quantities as people write them: durations such as `100ms` and `2.5s`, numbers of things."""

import math
import re
from datetime import timedelta
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, TypeAlias, TypeGuard, cast

Duration: TypeAlias = float | str | timedelta
"""Seconds, a text such as `100ms`, or a timedelta: what arguments of Python take."""

_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
LONGEST = 1e9  # seconds, thirty years: squares of it are still numbers
LARGEST_BATCH = 2**31  # items, far more than a list of them finds memory for
LARGEST_COST = 2.0**53  # of an item: the last of the whole numbers that a float can tell apart
_POWERS = {"": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_MOST_BYTES = 2**50
_BYTES = re.compile(r"\s*([0-9]{1,16})\s*(KiB|MiB|GiB)?\s*")
_SHARE = re.compile(r"([0-9]+(?:\.[0-9]+)?)%")
_DURATION = re.compile(r"\s*([0-9.]+(?:[eE][-+]?[0-9]+)?)\s*([a-zµ]+)\s*")


def parse_duration(text: str) -> float:
    """Read a duration with its unit, such as `100ms`, and return seconds.

    Raises:
        ValueError: There is no unit, an unknown one, no finite number before it, or more than
            thirty years of it.
    """
    match = _DURATION.fullmatch(text)
    unit = match[2] if match else None
    if match is None or unit not in _SECONDS:
        msg = (
            f"expected a duration with a unit ({', '.join(_SECONDS)}), such as 100ms, got {text!r}"
        )
        raise ValueError(msg)
    try:
        value = float(match[1])
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        msg = f"expected a finite number before {unit!r}, got {text!r}"
        raise ValueError(msg)
    seconds = value * _SECONDS[unit]
    if seconds > LONGEST:
        raise ValueError(f"expected at most {LONGEST:g} s, got {text!r}")
    return seconds


def check_flags(**flags: object) -> None:
    """See whether settings, by name, are True or False: `"no"` would count as True.

    Raises:
        TypeError: One is neither.
    """
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise TypeError(f"{name}: expected True or False, got {value!r}")


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value is a number; True and False are answers, not 1 and 0."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_whole_number(value: object) -> TypeGuard[int]:
    """Whether a value is an integer; True and False are answers, not 1 and 0."""
    return isinstance(value, int) and not isinstance(value, bool)


def plain_number(value: object) -> Any:
    """Return a real number as one of Python's, and anything else as it is.

    So is the value of an array or a tensor without dimensions; of a truth value it is True or
    False, which `is_number` does not take. What no float can hold stays as it is, and so does
    NumPy's masked value, whose `item` is 0.
    """
    if getattr(value, "ndim", None) == 0:  # NumPy's scalars have no dimensions either
        if getattr(value, "mask", False):
            return value
        value = cast("Any", value).item()
    if isinstance(value, int | float):
        return value
    if isinstance(value, Integral):
        return int(value)
    try:
        return float(value) if isinstance(value, Real | Decimal) else value
    except (ValueError, OverflowError):  # Decimal("sNaN"), or a fraction above 1.8e308
        return value


def seconds_of(name: str, duration: Duration) -> float:
    """Return the seconds of a duration; whether there can be so many is the caller's question.

    Args:
        name: What is called that, for the message.
        duration: What is no duration is returned as it is.

    Raises:
        ValueError: It is a text of something else.
    """
    if isinstance(duration, str):
        try:
            return parse_duration(duration)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return duration.total_seconds() if isinstance(duration, timedelta) else duration


def patience_of(max_latency: Duration | None, promised: float = math.inf) -> float:
    """Return the seconds of the `max_latency` of a call, or those promised if it has none or more.

    Raises:
        ValueError: It is not positive, or no duration.
    """
    if max_latency is None:
        return promised
    seconds = seconds_of("max_latency", max_latency)
    try:
        if not isinstance(seconds, bool) and seconds > 0:
            return min(seconds, promised)
    except TypeError:
        pass
    msg = "max_latency: expected a positive number of seconds, such as 0.001, or a text such as 1ms"
    raise ValueError(f"{msg}, got {max_latency!r}")


def format_duration(seconds: float) -> str:
    """Write seconds in the unit that leaves one to three digits before the point.

    What is less than a nanosecond is written in nanoseconds, what is more than 999 hours in hours.
    """
    magnitude = abs(seconds)
    for unit, above in (("s", 999.5), ("min", 120 * 60)):  # 999.5 has four digits when rounded
        if 0.9995 <= magnitude < above or magnitude == 0:
            return f"{seconds / _SECONDS[unit]:.3g} {unit}"
    if magnitude >= 1:
        hours = seconds / 3600
        return f"{hours:,.0f} h" if abs(hours) >= 100 else f"{hours:.3g} h"
    for unit in ("ms", "µs"):
        if magnitude >= 0.9995 * _SECONDS[unit]:
            return f"{seconds / _SECONDS[unit]:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def parse_bytes(text: str) -> int:
    """Read a number of bytes, such as `1000`, `64KiB` or `8MiB`.

    Raises:
        ValueError: It is something else, or none.
    """
    match = _BYTES.fullmatch(text)
    size = int(match[1]) * _POWERS[match[2] or ""] if match else 0
    if not 0 < size <= _MOST_BYTES:
        raise ValueError(f"expected a number of bytes such as 1000, 64KiB or 8MiB, got {text!r}")
    return size


def counted(number: int, what: str) -> str:
    """`1 request`, `2,000 requests`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def parse_share(text: str) -> float:
    """Read a percentage, such as `99.5%`, as a share of 1.

    Raises:
        ValueError: It is something else.
    """
    match = _SHARE.fullmatch(text)
    if match is None:
        raise ValueError(f"expected a percentage such as 99%, got {text!r}")
    return float(match[1]) / 100


def parse_occasion(text: str) -> tuple[float, float]:
    """Read how often and for how long something happens, such as `0.5%:10ms`.

    Returns:
        The share of 1, and the seconds.

    Raises:
        ValueError: It isn't a percentage and a duration with a colon between them.
    """
    share, colon, length = text.partition(":")
    if not colon or _SHARE.fullmatch(share) is None:
        raise ValueError(f"expected PERCENT:DURATION such as 0.5%:10ms, got {text!r}")
    return parse_share(share), parse_duration(length)
