"""`adaptive-batching serve`: a service from a module, until it is told to stop."""

import importlib
import importlib.util
import os
import shlex
import sys
from collections.abc import Collection, Iterable, Iterator
from math import ceil
from pathlib import Path
from traceback import format_exception
from typing import NoReturn

import click

from adaptive_batching.cli.options.admin import AdminOptions, admin_options
from adaptive_batching.cli.options.environment import VariablesCommand, warn_of_unknown
from adaptive_batching.cli.options.listening import (
    Listening,
    listening_options,
    serve_until_told,
)
from adaptive_batching.cli.options.named_values import named_values
from adaptive_batching.cli.options.parameters import CPUS
from adaptive_batching.cli.options.recorders import make_recorders, opened
from adaptive_batching.cli.options.sections import options_in
from adaptive_batching.cli.options.telemetry import TelemetryOptions, telemetry_options
from adaptive_batching.errors import ConfigError
from adaptive_batching.exception_text import users_frames
from adaptive_batching.marshal.config.endpoints_file import EndpointsFile
from adaptive_batching.marshal.service.endpoints import Endpoint
from adaptive_batching.marshal.service.runner import Running
from adaptive_batching.marshal.service.service import Service

_endpoints = options_in("Endpoints")
_STOP = 5  # seconds; the time of watchfiles, for what is not the drain


@click.command(
    "serve", cls=VariablesCommand, context_settings={"auto_envvar_prefix": "ADAPTIVE_BATCHING"}
)
@click.argument("target", metavar="MODULE:SERVICE")
@_endpoints(
    "--workers",
    "moves",
    metavar="[PATH=]WHERE",
    multiple=True,
    envvar="ADAPTIVE_BATCHING_WORKERS",
    help="Workers of a handler, instead of those in the module: 4, threads:2, processes:2, ray:4, "
    "unix:/run/model.sock; /predict=ray:4 if there are several endpoints.",
)
@_endpoints(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="TOML file with policies and limits of endpoints, instead of those in the module; read "
    "again at SIGHUP and when it is written.",
)
@_endpoints(
    "--reload",
    is_flag=True,
    allow_from_autoenv=False,  # the command that is started anew would inherit the variable
    help="Start the service anew when a Python file below this directory changes; for development.",
)
@admin_options
@telemetry_options
@options_in("Operators")(
    "--record",
    "records",
    metavar="[PATH=]FILE",
    multiple=True,
    envvar="ADAPTIVE_BATCHING_RECORD",
    help="Write every request of an endpoint, without its payload, for simulate and fit: "
    "out.csv, or /predict=out.csv if there are several endpoints; .gz compresses.",
)
@listening_options
@options_in("Listening")(
    "--marshal-cpus",
    type=CPUS,
    metavar="CPUS",
    help="Cores of the process that answers connections: 0, or 0,2-3; workers have their own.",
)
@click.pass_context
def command(
    context: click.Context,
    /,
    target: str,
    listening: Listening,
    admin: AdminOptions,
    telemetry: TelemetryOptions,
    records: tuple[str, ...],
    moves: tuple[str, ...],
    config: Path | None,
    marshal_cpus: tuple[int, ...] | None,
    *,
    reload: bool,
) -> None:
    """Serve the endpoints of MODULE:SERVICE over HTTP.

    \b
    adaptive-batching serve digits:service --port 8000 --admin-port 9000

    SIGTERM or Ctrl-C ends it when all accepted requests are answered; a second one ends it at once.
    SIGHUP replaces the worker processes one after the other, without a failed request.
    """  # noqa: D301 - \b keeps the example's lines
    if reload:
        _start_anew_at_changes(listening)
        return
    with telemetry.logs() as logs:
        warn_of_unknown(context, os.environ, of_a_file=True)
        service = _load(target)
        _relocate(service, moves)
        labels = [label for endpoint in service for label in endpoint.labels]
        recorders = make_recorders(records, labels, "endpoint")
        observers = {path: [recorder] for path, recorder in recorders.items()}
        tracer = telemetry.tracer()
        file = None if config is None else EndpointsFile(config)
        try:
            running = Running(
                service.description,
                admin=admin.address,
                observers=observers,
                tracer=tracer,
                file=file,
            )
        except ConfigError as error:
            raise click.UsageError(str(error)) from error
        running.metrics.log_lines_dropped = lambda: logs.dropped
        with opened(recorders.values()):
            serve_until_told(running, listening, admin, _addresses, marshal_cpus)


def _start_anew_at_changes(listening: Listening) -> None:
    """Run the same command without --reload, and again each time that a file changes."""
    try:
        import watchfiles  # noqa: PLC0415  an extra
    except ModuleNotFoundError:
        raise click.UsageError("--reload needs watchfiles: pip install watchfiles") from None
    again = [
        sys.executable,
        "-m",
        "adaptive_batching.cli.reloaded",
        str(os.getpid()),
        *sys.argv[1:],
    ]
    again.remove("--reload")
    watchfiles.run_process(
        Path.cwd(),
        target=shlex.join(again),
        target_type="command",
        watch_filter=watchfiles.PythonFilter(),
        callback=_tell,
        sigint_timeout=ceil(listening.drain_delay + listening.drain_timeout) + _STOP,
    )


def _tell(changes: Collection[tuple[object, str]]) -> None:
    names = sorted(str(Path(path).relative_to(Path.cwd())) for _, path in changes)
    click.echo(f"starting anew: {', '.join(names)}", err=True)


def _load(target: str) -> Service:
    """Import the service; like `python -m`, look in the current directory first."""
    module, attribute = _parts(target)
    sys.path.insert(0, str(Path.cwd()))
    try:
        loaded = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            _exit_with_traceback(error)  # one of its own imports
        msg = f"there is no module {error.name!r} here or among the installed ones"
        raise click.BadParameter(msg) from error
    except Exception as error:  # noqa: BLE001  whatever the user's own code raises
        _exit_with_traceback(error)
    service = getattr(loaded, attribute, None)
    if not isinstance(service, Service):
        found = "nothing" if service is None else f"a {type(service).__name__}"
        hint = ": run that with uvicorn, and mount a Service in it" if _is_app(service) else ""
        raise click.BadParameter(f"expected a Service at {target}, found {found}{hint}")
    if not list(service):
        raise click.BadParameter(f"expected endpoints in {target}, found a Service without any")
    return service


def _is_app(found: object) -> bool:
    """Whether it is an application of FastAPI or Starlette."""
    return hasattr(found, "mount")


def _exit_with_traceback(error: Exception) -> NoReturn:
    """Print a traceback that begins in the user's module: what led there is the same for all."""
    frames = users_frames(error.__traceback__)
    click.echo("".join(format_exception(type(error), error, frames)), err=True, nl=False)
    sys.exit(1)


def _parts(target: str) -> tuple[str, str]:
    module, _, attribute = target.partition(":")
    file = Path(module)
    if attribute and (file.suffix == ".py" or len(file.parts) > 1):
        name = f"{file.stem if file.suffix == '.py' else file.name}:{attribute}"
        where = "" if file.parent == Path() else f" in {file.parent}"
        msg = f"expected a module's name, not its file: say {name}{where}, got {target!r}"
        raise click.BadParameter(msg)
    if not attribute or not all(module.split(".")):
        raise click.BadParameter(f"expected MODULE:SERVICE, such as digits:service, got {target!r}")
    return module, attribute


def _relocate(service: Service, moves: Iterable[str]) -> None:
    """Move handlers elsewhere; the stages of a pipeline stay where its module has them."""
    paths = [endpoint.path for endpoint in service if isinstance(endpoint, Endpoint)]
    for path, where in named_values("--workers", "WHERE", moves, paths).items():
        try:
            service.description.relocate(path, int(where) if where.isdecimal() else where)
        except (TypeError, ValueError) as error:
            raise click.BadParameter(f"--workers: {error}") from error


def _addresses(running: Running) -> Iterator[str]:
    for path in running.endpoints:
        yield f"POST {running.url}{path}"
    shown = ["/docs", "/openapi.json"] if running.documented else []
    shown += ["/healthz", "/readyz"]
    if not running.admin_url:
        shown.append("/metrics")
    yield f"GET  {running.url}{' '.join(shown)}"
    if running.admin_url:
        yield f"GET  {running.admin_url}/ /debug/batches /healthz /readyz /metrics"
