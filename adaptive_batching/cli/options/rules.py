"""What options have to do with one another, beyond what each says for itself."""

from collections.abc import Callable

import click
from click.core import ParameterSource

from adaptive_batching.cli.options.environment import as_said

Rule = Callable[[click.Context], None]
"""Raises a `UsageError` if what was said can't be together."""

_NOT_SAID = (ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP)


def needs(name: str, other: str) -> Rule:
    """Something is of no use unless another is said as well."""

    def check(context: click.Context) -> None:
        if said(context, name) and not said(context, other):
            told = f"{as_said(context, name)}: expected {as_said(context, other)} as well"
            raise click.UsageError(f"{told}, got it alone")

    return check


def excludes(name: str, *others: str) -> Rule:
    """Something takes the place of others."""

    def check(context: click.Context) -> None:
        beside = [as_said(context, other) for other in others if said(context, other)]
        if beside and said(context, name):
            told = f"{as_said(context, name)}: expected it instead of {', '.join(beside)}"
            raise click.UsageError(f"{told}, got both")

    return check


def said(context: click.Context, name: str) -> bool:
    """Whether an option was typed, or its variable is set."""
    return context.get_parameter_source(name) not in _NOT_SAID
