"""The command line of KServe's agent, in our words: it is replaced by changing the image alone."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import click

from adaptive_batching.cli.options.environment import VariablesCommand

KSERVE_AGENT = "kserve-agent"

_ADDRESS = "http://127.0.0.1:{}"
_DEFAULTS = {
    "upstreams": [_ADDRESS.format(8080)],
    "protocol": "kserve-v1",
    "host": "0.0.0.0",  # noqa: S104  as the agent does
    "port": 9081,
}
_OURS = {"max-batchsize": "--max-batch-size", "port": "--port"}
_WITHOUT_VALUE = frozenset({"enable-batcher"})
_YES = frozenset({"", "1", "t", "T", "true", "TRUE", "True"})  # strconv.ParseBool
_NOT_NEEDED = frozenset({"max-latency"})
"""How long the agent holds a batch (milliseconds). The default policy holds none for longer than
it gains by, and the agent promises no latency, so that there is nothing to refuse by."""


class AgentCommand(VariablesCommand):
    """A command that reads KServe's flags if it is told to by `--compat kserve-agent`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the command line."""
        compat = ["--compat", KSERVE_AGENT]
        if any([*pair] == compat for pair in pairwise(args)):
            at = args.index("--compat")
            return self._parse_flags(ctx, [*args[:at], *args[at + 2 :]])
        if f"--compat={KSERVE_AGENT}" in args:
            rest = [arg for arg in args if arg != f"--compat={KSERVE_AGENT}"]
            return self._parse_flags(ctx, rest)
        return super().parse_args(ctx, args)

    def _parse_flags(self, ctx: click.Context, args: Sequence[str]) -> list[str]:
        ctx.default_map = _DEFAULTS
        try:
            return super().parse_args(ctx, ["--compat", KSERVE_AGENT, *_translated(args)])
        except click.BadParameter as error:
            typed = {_OURS.get(_name(arg)): arg.partition("=")[0] for arg in args}
            options = [] if error.param is None else error.param.opts
            told = next((typed[each] for each in options if each in typed), None)
            error.param_hint = told or error.param_hint
            raise


def _translated(args: Sequence[str]) -> list[str]:
    """Go's flags, with one dash or two; what is not KServe's is left as it is.

    `--upstream` takes the place of `--component-port`, which KServe adds by itself.
    """
    others: list[str] = []
    elsewhere = any(arg.partition("=")[0] == "--upstream" for arg in args)
    for name, value in _flags(args):
        if name == "component-port":
            if not (value.isdecimal() and 0 < int(value) < 2**16):
                raise click.UsageError(f"--{name}: expected a port, got {value!r}")
            if not elsewhere:
                others += ["--upstream", _ADDRESS.format(value)]
        elif name in _OURS:
            others += [_OURS[name], value]
        elif name in _NOT_NEEDED:
            if not value.isdecimal():
                raise click.UsageError(f"--{name}: expected milliseconds, got {value!r}")
        elif name not in _WITHOUT_VALUE:
            others.append(value)
        elif value not in _YES:
            msg = "expected true, for this is a batcher: say --max-batch-size 1 to have none"
            raise click.UsageError(f"--{name}: {msg}, got {value!r}")
    return others


def _flags(args: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Name and value of KServe's flags; all else is a value without a name."""
    known = {*_OURS, *_NOT_NEEDED, "component-port"}
    left = iter(args)
    for arg in left:
        name, (_, equals, value) = _name(arg), arg.partition("=")
        if name not in known | _WITHOUT_VALUE:
            yield "", arg
        elif name in _WITHOUT_VALUE or equals:
            yield name, value
        else:
            given = next(left, None)
            if given is None:
                raise click.UsageError(f"{arg}: expected a value")
            yield name, given


def _name(arg: str) -> str:
    """Return the name of a flag with one dash or two; empty if it is none."""
    return arg.lstrip("-").partition("=")[0] if arg.startswith("-") else ""
