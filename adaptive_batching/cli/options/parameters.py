"""What people type on the command line: durations, shares, ranges, names of policies."""

import re
from collections.abc import Callable, Mapping
from math import inf, nan
from typing import Any

import click
from click.types import BoolParamType

from adaptive_batching.cli.options.sections import OUTPUT, options_in
from adaptive_batching.named_policy import check_named_policy
from adaptive_batching.units import LONGEST, parse_duration, parse_share
from adaptive_batching.workers.pinning import check_cpus

MOST_WORKERS = 1000  # a slip in a number should be told, not waited for
_MOST_ITEMS = 10**18  # 64 bits

_CPUS = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?")
_RANGE = re.compile(r"([0-9]{1,4})(?:\.\.([0-9]{1,4}))?")


class Parsed(click.ParamType):  # type: ignore[type-arg]  # generic in newer clicks only
    """A type whose parser says by itself what it expected and what it got."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read what was typed; a default that is none is taken as it is."""
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class WholeNumber(click.IntRange):
    """A number within bounds, of which the message says both if it is another or none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read what was typed."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            to = "on" if self.max is None else f"to {self.max}"
            msg = f"expected a whole number from {self.min} {to}, got {value!r}"
            self.fail(msg, param, ctx)


class Truth(BoolParamType):
    """Whether something is so; a variable may say what no option can."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read what a variable says."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"expected true or false, got {value!r}", param, ctx)


def _seconds(text: str) -> float:
    """Read `20` or `20s`."""
    try:
        seconds = float(text)
    except ValueError:
        return parse_duration(text)
    if not 0 <= seconds < inf:
        raise ValueError(f"expected 0 seconds or more, got {text!r}")
    if seconds > LONGEST:
        raise ValueError(f"expected at most {LONGEST:g} s, got {text!r}")
    return seconds


def _cpus(text: str) -> tuple[int, ...]:
    """Read `0`, `0,2-3`, as taskset does."""
    cpus: set[int] = set()
    for part in text.split(","):
        named = _CPUS.fullmatch(part)
        if named is None:
            raise ValueError(f"expected cores, such as 0 or 0,2-3, got {text!r}")
        first = int(named[1])
        cpus.update(range(first, int(named[2] or first) + 1))
    check_cpus(cpus)
    return tuple(sorted(cpus))


def _policy_name(text: str) -> str:
    check_named_policy(text)
    return text


def _goodput(text: str) -> float:
    share = parse_share(text)
    if not 0 < share <= 1:
        raise ValueError(f"expected more than 0% and 100% at the most, got {text!r}")
    return share


def _range(text: str) -> range:
    """Read `1..8`, both included, or `4`."""
    match = _RANGE.fullmatch(text)
    numbers = range(int(match[1]), int(match[2] or match[1]) + 1) if match else range(0)
    if not numbers or numbers[0] < 1:
        raise ValueError(f"expected a range from 1 such as 1..8, got {text!r}")
    if numbers[-1] > MOST_WORKERS:
        raise ValueError(f"expected {MOST_WORKERS} at the most, got {text!r}")
    return numbers


def _rate(text: str) -> float:
    """Read `2000`."""
    try:
        rate = float(text)
    except ValueError:
        rate = nan
    if not 0 < rate < inf:
        raise ValueError(f"expected a positive number a second, got {text!r}")
    return rate


DURATION = Parsed("duration", parse_duration)
SECONDS = Parsed("seconds", _seconds)
POLICY = Parsed("policy", _policy_name)
SHARE = Parsed("percent", parse_share)
GOODPUT = Parsed("percent", _goodput)
RANGE = Parsed("range", _range)
TRUTH = Truth()
CPUS = Parsed("cpus", _cpus)
RATE = Parsed("rate", _rate)
ITEMS = click.IntRange(max=_MOST_ITEMS)  # the rest is said by `Limits`
WORKERS = click.IntRange(1, MOST_WORKERS)
REPLICATIONS = click.IntRange(1, 10_000)

FORMAT = options_in(OUTPUT)(
    "--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True
)


def expect_none(where: str, given: Mapping[str, object], *names: str) -> None:
    """Refuse options that do not go with another."""
    for name in names:
        value = given[name]
        if value is not None and value is not False:  # 0 was given
            option = name.replace("_", "-")
            raise click.UsageError(f"expected no --{option} {where}, got {value}")


def expect_shorter(name: str, seconds: float, duration: float | None) -> None:
    """Refuse an option that leaves nothing of the traffic; a duration of None is not known.

    Raises:
        ValueError: It doesn't end before the traffic.
    """
    if seconds and duration is not None and seconds >= duration:
        msg = f"{name}: expected less than the traffic's {duration:g} s, got {seconds:g} s"
        raise ValueError(msg)
