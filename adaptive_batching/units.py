"""Durations as people type them: `100ms`, `2.5s`, `50us`."""

import math
import re

_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_DURATION = re.compile(r"\s*([0-9.]+(?:[eE][-+]?[0-9]+)?)\s*([a-zµ]+)\s*")


def parse_duration(text: str) -> float:
    """Read a duration with its unit, such as `100ms`, and return seconds.

    Raises:
        ValueError: There is no unit, an unknown one, or no finite number before it.
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
    return value * _SECONDS[unit]


def format_duration(seconds: float) -> str:
    """Write seconds in the unit that leaves one to three digits before the point."""
    magnitude = abs(seconds)
    if magnitude >= 1 or magnitude == 0:
        return f"{seconds:.3g} s"
    if magnitude >= 1e-3:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds * 1e6:.3g} µs"
