"""`adaptive-batching sidecar`: adaptive batching before a model server, without touching it."""

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import click

from adaptive_batching.cli.kserve_agent import KSERVE_AGENT, AgentCommand
from adaptive_batching.cli.options.admin import AdminOptions, admin_options
from adaptive_batching.cli.options.declared import (
    Command,
    add_options,
    gather_options,
    made,
    options_of,
)
from adaptive_batching.cli.options.environment import as_said, warn_of_unknown
from adaptive_batching.cli.options.listening import (
    Listening,
    check_listening,
    listening_options,
    serve_until_told,
)
from adaptive_batching.cli.options.recorders import make_recorders, opened
from adaptive_batching.cli.options.rules import needs, said
from adaptive_batching.cli.options.sections import options_in
from adaptive_batching.cli.options.telemetry import TelemetryOptions, telemetry_options
from adaptive_batching.errors import ConfigError, SettingError
from adaptive_batching.marshal.config.limits import Bounds
from adaptive_batching.marshal.config.routes import make_route
from adaptive_batching.marshal.config.routes_file import RoutesFile
from adaptive_batching.marshal.config.settings import RouteSettings
from adaptive_batching.marshal.sidecar.route import Route
from adaptive_batching.marshal.sidecar.runner import SidecarRunning


def route_options(command: Command) -> Command:
    """Add the options of a single route; each is named after a key of a file of routes."""
    return add_options(command, [*options_of(RouteSettings, "Routes").values()])


def limits(command: Command) -> Command:
    """Add the options that hold for all routes together, as the argument `bounds`."""
    rules = [needs("max_per_tenant", "tenant_header")]
    return gather_options(command, "bounds", Bounds, "Limits", rules)


_several = options_in("Several routes, and KServe")


@click.command(
    "sidecar", cls=AgentCommand, context_settings={"auto_envvar_prefix": "ADAPTIVE_BATCHING"}
)
@route_options
@_several(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="TOML file with routes, instead of the options of a single route; read again at SIGHUP "
    "and when it is written.",
)
@_several(
    "--compat",
    type=click.Choice([KSERVE_AGENT]),
    help="Take the flags of KServe's agent, and answer with its batchId and message.",
)
@limits
@admin_options
@telemetry_options
@options_in("Operators")(
    "--record",
    "records",
    type=click.Path(),
    metavar="[ROUTE=]FILE",
    multiple=True,
    envvar="ADAPTIVE_BATCHING_RECORD",
    help="Write every batched request of a route, without its payload, for simulate and fit: "
    "out.csv, or digits=out.csv if a file says of several; .gz compresses.",
)
@listening_options
@click.pass_context
def command(
    context: click.Context,
    /,
    compat: str | None,
    config: Path | None,
    records: tuple[str, ...],
    admin: AdminOptions,
    telemetry: TelemetryOptions,
    bounds: Bounds,
    listening: Listening,
    **of_a_route: Any,
) -> None:
    """Merge single requests for a model server into batches of its own protocol.

    \b
    adaptive-batching sidecar --upstream http://127.0.0.1:8501 --protocol tensorflow \\
      --max-latency 100ms --port 8000

    Requests that the protocol can't batch are passed on unchanged. SIGTERM or Ctrl-C ends it when
    all accepted requests are answered; a second one ends it at once.
    """  # noqa: D301 - \b keeps the example's lines
    try:
        if config is not None:
            _check_alone(context, of_a_route)
            file = RoutesFile(config)
            routes: RoutesFile | list[Route] = file
            names = [route.name for route in file.read()]
        else:
            route = _route(of_a_route, batch_fields=compat == KSERVE_AGENT)
            routes, names = [route], [route.name]
        recorders = make_recorders(records, names, "route", as_said(context, "records"))
        running = SidecarRunning(
            routes,
            bounds=bounds,
            admin=admin.address,
            observers={name: [recorder] for name, recorder in recorders.items()},
            tracer=telemetry.tracer(),
        )
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    except SettingError as error:
        options = {option.name: option for option in context.command.params}
        raise click.BadParameter(error.fault, context, options[error.key]) from error
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    if context.obj is not None:  # `check-config`
        warn_of_unknown(context, os.environ, of_a_file=True)
        check_listening(listening, admin)
        # The default port is often that of a model server.
        port = (listening.host, listening.port) if said(context, "port") else None
        running.check_elsewhere(listening.unix_socket or port)
        context.obj(running)
        return
    with telemetry.logs() as logs, opened(recorders.values()):
        running.metrics.log_lines_dropped = lambda: logs.dropped
        warn_of_unknown(context, os.environ, of_a_file=config is not None)
        serve_until_told(running, listening, admin, _addresses)


def _route(said: dict[str, Any], *, batch_fields: bool) -> Route:
    """Return the route that the options describe."""
    if not said["upstreams"] or said["protocol"] is None:
        raise click.UsageError("expected --upstream and --protocol, or --config")
    settings = made(RouteSettings, said)
    return make_route(settings.protocol, settings, batch_fields=batch_fields)


def _check_alone(context: click.Context, of_a_route: Collection[str]) -> None:
    """Check that no option of a single route stands beside a file of routes.

    Raises:
        UsageError: Something is.
    """
    beside = [
        as_said(context, option.name)
        for option in context.command.params
        if option.name in of_a_route and said(context, option.name)
    ]
    if beside:
        raise click.UsageError(f"expected {', '.join(beside)} in the file, got it beside --config")


def _addresses(running: SidecarRunning) -> Iterator[str]:
    for relay in running.runtimes:
        servers = " ".join(map(str, relay.route.servers))
        yield f"{running.url} before {servers}"
    if running.admin_url:
        yield f"{running.admin_url}/ /debug/batches /healthz /readyz /metrics"
