"""Variables of the environment that stand for options: their names, and unknown ones."""

import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches

import click
from click.core import ParameterSource

from adaptive_batching.cli.options.sections import SectionedCommand
from adaptive_batching.marshal.config.quantities import PREFIX

_log = logging.getLogger("adaptive_batching")
_OF_A_SERVICE = re.compile(r".*_SERVICE_(HOST|PORT)(_.*)?|.*_PORT_\d+_(TCP|UDP)(_.*)?")
"""Variables that Kubernetes sets for each service; a service's name may begin as ours."""


class VariablesCommand(SectionedCommand):
    """A command that names a variable, not its option, in errors about the variable."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the command line and the environment."""
        with _named(ctx):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Run it."""
        with _named(ctx):
            return super().invoke(ctx)


def as_said(context: click.Context, name: str) -> str:
    """Return the name under which a parameter was set: its variable, or else its option."""
    [option] = [each for each in context.command.params if each.name == name]
    if context.get_parameter_source(name) is ParameterSource.ENVIRONMENT:
        return _variables(option, f"{context.auto_envvar_prefix}_")[0]
    return max(option.opts, key=len)


@contextmanager
def _named(context: click.Context) -> Iterator[None]:
    try:
        yield
    except click.BadParameter as error:
        name = None if error.param is None else error.param.name
        if name and context.get_parameter_source(name) is ParameterSource.ENVIRONMENT:
            variable, fault = as_said(context, name), error.message
            if _of_kubernetes("", os.environ.get(variable, "")):
                fault = (
                    f"{fault.rstrip('.')}; it is what Kubernetes says of a service of that name:"
                    " set the variable, or enableServiceLinks: false in the pod."
                )
            raise click.BadParameter(fault, error.ctx, error.param, variable) from error
        raise


def warn_of_unknown(
    context: click.Context, environment: Mapping[str, str], *, of_a_file: bool
) -> None:
    """Log the variables that begin like those of the command and are none of them.

    Args:
        context: The context of the command; its options have variables.
        environment: All variables.
        of_a_file: Whether there is a file of routes; reading it has checked its own variables.
    """
    prefix = f"{context.auto_envvar_prefix}_"
    known = {name for option in context.command.params for name in _variables(option, prefix)}
    for name, value in environment.items():
        if not name.startswith(prefix) or name in known or _of_kubernetes(name, value):
            continue
        if not name.startswith(PREFIX):
            nearest = get_close_matches(name, known, n=1, cutoff=0.0)
            _log.warning("%s means nothing here; expected such as %s", name, *nearest)
        elif not of_a_file:
            _log.warning("%s means nothing without --config", name)


def _variables(option: click.Parameter, prefix: str) -> list[str]:
    if option.envvar is None:
        return [f"{prefix}{option.name}".upper()]
    return [option.envvar] if isinstance(option.envvar, str) else [*option.envvar]


def _of_kubernetes(name: str, value: str) -> bool:
    return value.startswith(("tcp://", "udp://")) or _OF_A_SERVICE.fullmatch(name) is not None
