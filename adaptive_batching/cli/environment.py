"""Variables of the environment that are meant for a command and mean nothing to it."""

import logging
import re
from collections.abc import Mapping
from difflib import get_close_matches

import click

from adaptive_batching.marshal.route_tables import PREFIX

_log = logging.getLogger("adaptive_batching")
_OF_A_SERVICE = re.compile(r".*_SERVICE_(HOST|PORT)(_.*)?|.*_PORT_\d+_(TCP|UDP)(_.*)?")
"""What Kubernetes sets for each service, whose name may begin as ours does."""


def warn_of_unknown(
    context: click.Context, environment: Mapping[str, str], *, of_a_file: bool
) -> None:
    """Name the variables that begin as those of a sidecar do and are none of them.

    Args:
        context: Of the command, whose options have variables.
        environment: All variables.
        of_a_file: Whether there is a file of routes, who has found its own in order.
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
