"""Rules about options that depend on each other."""

from collections.abc import Callable

import click
from click.core import ParameterSource

from adaptive_batching.cli.options.environment import as_said

Rule = Callable[[click.Context], None]
"""Raises a `UsageError` if the options of a context do not go together."""

_NOT_SAID = (ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP)


def needs(name: str, other: str) -> Rule:
    """Return a rule: an option has no use without another one."""

    def check(context: click.Context) -> None:
        if said(context, name) and not said(context, other):
            told = f"{as_said(context, name)}: expected {as_said(context, other)} as well"
            raise click.UsageError(f"{told}, got it alone")

    return check


def excludes(name: str, *others: str) -> Rule:
    """Return a rule: an option takes the place of others; typed, also of their variables."""

    def check(context: click.Context) -> None:
        typed = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        weaker = ParameterSource.ENVIRONMENT if typed else None
        beside = [
            as_said(context, other)
            for other in others
            if said(context, other) and context.get_parameter_source(other) is not weaker
        ]
        if beside and said(context, name):
            told = f"{as_said(context, name)}: expected it instead of {', '.join(beside)}"
            raise click.UsageError(f"{told}, got both")

    return check


def said(context: click.Context, name: str) -> bool:
    """Whether an option was typed or its variable is set."""
    return context.get_parameter_source(name) not in _NOT_SAID
