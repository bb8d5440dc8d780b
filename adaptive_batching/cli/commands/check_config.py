"""`adaptive-batching check-config`: says whether a sidecar would start with a file of routes."""

from collections.abc import Iterator
from copy import copy
from pathlib import Path
from typing import Any, cast

import click

from adaptive_batching.cli.commands import sidecar
from adaptive_batching.cli.options.environment import VariablesCommand
from adaptive_batching.errors import BatchingError, ConfigError
from adaptive_batching.marshal.config.settings import RouteSettings
from adaptive_batching.marshal.sidecar.runner import SidecarRunning

_ELSEWHERE = {"compat", *RouteSettings.__struct_fields__}


class _Check(VariablesCommand):
    """The command of the sidecar, but it prints the routes instead of serving them."""

    def invoke(self, ctx: click.Context) -> None:
        """Read all settings that the sidecar would read."""
        ctx.obj = _show
        try:
            super().invoke(ctx)
        except click.UsageError as error:
            if isinstance(error.__cause__, ConfigError):  # the file, not what is beside it
                raise click.ClickException(str(error.__cause__)) from error
            raise
        except BatchingError as error:
            raise click.ClickException(str(error)) from error


def _show(running: SidecarRunning) -> None:
    for relay in running.runtimes:
        relay.warn()
        route = relay.route
        click.echo(f"{route.name}: {route.prefix} to {' '.join(map(str, route.servers))}")


def _params() -> Iterator[click.Parameter]:
    """Yield the options of the sidecar; those of a single route are hidden, and refused if set."""
    yield click.Argument(
        ["config"], type=click.Path(dir_okay=False, path_type=Path), metavar="FILE"
    )
    for option in sidecar.command.params:
        if option.name != "config":
            yield _hidden(option) if option.name in _ELSEWHERE else option


def _hidden(option: click.Parameter) -> click.Parameter:
    """Return a copy of an option that `--help` does not show."""
    hidden: Any = copy(option)
    hidden.hidden = True
    return cast("click.Parameter", hidden)


command = _Check(
    "check-config",
    context_settings=sidecar.command.context_settings,
    callback=sidecar.command.callback,
    params=[*_params()],
    help="""Check a FILE of routes, with the environment, as `sidecar --config FILE` reads them.

    Give the same options as to the sidecar: they are checked together with the file. No server is
    contacted. The exit status is 0 if there is no error.
    """,
)
