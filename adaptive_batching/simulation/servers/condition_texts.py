"""Conditions of workers as text, such as `2x@6s` for a drift."""

import re
from collections.abc import Hashable

from adaptive_batching.simulation.servers.conditions import (
    ColdStart,
    Crashes,
    Drift,
    Failures,
    KeyCosts,
    Pauses,
    SharedDevice,
)
from adaptive_batching.units import parse_duration, parse_occasion, parse_share


def parse_key_costs(text: str) -> KeyCosts:
    """Read `1,8` for keys that are drawn, in their order, or `resnet=1,bert=8` by their names.

    Raises:
        ValueError: It is neither, or a key is there twice.
    """
    parts = [part.rpartition("=") for part in text.split(",")]
    named = {bool(equals) for _, equals, _ in parts}
    if len(named) > 1 or not all(_MULTIPLE.fullmatch(cost) for *_, cost in parts):
        raise ValueError(f"expected multiples such as 1,8, or a=1,b=8, got {text!r}")
    costs: dict[Hashable, float] = {
        key if equals else index: float(cost) for index, (key, equals, cost) in enumerate(parts)
    }
    if len(costs) < len(parts):
        raise ValueError(f"expected each key once, got {text!r}")
    return KeyCosts(costs)


def parse_pauses(text: str) -> Pauses:
    """Read `10ms/2s`: a pause of 10 ms, and the next one 2 s after it on average.

    Raises:
        ValueError: It isn't two durations with a slash between them.
    """
    length, _, every = text.partition("/")
    return Pauses(parse_duration(length), parse_duration(every))


def parse_drift(text: str) -> Drift:
    """Read `2x@6s` for a step at 6 s, `1.5x@6s-20s` for a ramp, `3:2x@6s` for worker 3 alone.

    Raises:
        ValueError: It is none of them.
    """
    match = _DRIFT.fullmatch(text)
    if match is None:
        raise ValueError(f"expected [WORKER:]FACTORx@TIME[-TIME] such as 2x@6s, got {text!r}")
    worker = int(match[1]) if match[1] else None
    start = parse_duration(match[3])
    end = parse_duration(match[4]) if match[4] else start
    if end < start:
        raise ValueError(f"expected an end that is not before the start, got {text!r}")
    return Drift(float(match[2]), start, end - start, worker)


def parse_cold_start(text: str) -> ColdStart:
    """Read `5:200ms`: the first 5 batches take 200 ms more.

    Raises:
        ValueError: It isn't a number and a duration.
    """
    batches, colon, extra = text.partition(":")
    if not colon or not batches.strip().isdecimal():
        raise ValueError(f"expected BATCHES:DURATION such as 5:200ms, got {text!r}")
    return ColdStart(int(batches), parse_duration(extra))


def parse_failures(text: str) -> Failures:
    """Read `0.5%`.

    Raises:
        ValueError: It isn't a percentage from 0 to 100.
    """
    return Failures(parse_share(text))


def parse_crashes(text: str) -> Crashes:
    """Read `0.1%:2s`: one batch in a thousand kills its worker, which is back after 2 s.

    Raises:
        ValueError: It isn't a percentage and a duration with a colon between them.
    """
    return Crashes(*parse_occasion(text))


def parse_shared(text: str) -> SharedDevice:
    """Read `30%`: each batch that runs beside another lengthens it by that much.

    Raises:
        ValueError: It isn't a percentage.
    """
    return SharedDevice(parse_share(text))


_MULTIPLE = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_DRIFT = re.compile(r"(?:([0-9]{1,4}):)?([0-9]+(?:\.[0-9]+)?)x@([^-]+)(?:-([^-]+))?")
