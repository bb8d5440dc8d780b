"""Where operators look at a service or a sidecar."""

from dataclasses import dataclass

import click

from adaptive_batching.cli.options.groups import Command, gather_options
from adaptive_batching.cli.options.parameters import PORT
from adaptive_batching.cli.options.rules import needs

_OPTIONS = (
    click.option(
        "--admin-port",
        type=PORT,
        help="Port of operators: a dashboard, /debug/batches, /healthz, /readyz, /metrics, POST"
        " /reload; 0 takes a free one. Default: none.",
    ),
    click.option(
        "--admin-host", default="127.0.0.1", show_default=True, help="Address of the admin port."
    ),
)


@dataclass(frozen=True, slots=True)
class AdminOptions:
    """What was said of it.

    Attributes:
        admin_port: Its port; None for none.
        admin_host: The address to listen on.
    """

    admin_port: int | None
    admin_host: str

    @property
    def address(self) -> tuple[str, int] | None:
        """Host and port, if there is to be one."""
        return None if self.admin_port is None else (self.admin_host, self.admin_port)


def admin_options(command: Command) -> Command:
    """Add the options to a command, which gets them as `admin`."""
    rules = [needs("admin_host", "admin_port")]
    return gather_options(command, _OPTIONS, "admin", AdminOptions, rules)
