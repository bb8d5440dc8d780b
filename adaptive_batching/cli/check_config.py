"""`adaptive-batching check-config`: says whether a sidecar would start with a file of routes."""

import os
from pathlib import Path

import click

from adaptive_batching.cli.bounds_options import bounds_of_all
from adaptive_batching.errors import ConfigError
from adaptive_batching.marshal.bounds import Bounds
from adaptive_batching.marshal.route_tables import read_routes


@click.command("check-config")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@bounds_of_all
def command(file: Path, bounds: Bounds) -> None:
    """Read a FILE of routes as `sidecar --config FILE` does, and the environment with it.

    Say what is said to the sidecar beside the file: it has to go together. No server is asked. The
    exit status is 0 if all is well.
    """
    try:
        routes = read_routes(file, os.environ)
        bounds.check(routes)
    except (ConfigError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    for route in routes:
        click.echo(f"{route.name}: {route.prefix} to {' '.join(map(str, route.servers))}")
