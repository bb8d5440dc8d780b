"""Where operators look at a service or a sidecar."""

from typing import Annotated

import msgspec

from adaptive_batching.cli.options.declared import Command, gather_options
from adaptive_batching.cli.options.rules import needs
from adaptive_batching.marshal.config.quantities import Port, means


class AdminOptions(msgspec.Struct, frozen=True):
    """The address of the pages of operators."""

    admin_port: Annotated[
        Port | None,
        means(
            "Port for operators: dashboard, /debug/batches, /healthz, /readyz, /metrics, POST "
            "/reload; 0 takes a free one. Default: none."
        ),
    ] = None
    admin_host: Annotated[str, means("Address of the admin port.")] = "127.0.0.1"

    @property
    def address(self) -> tuple[str, int] | None:
        """Host and port of the pages; None for no pages."""
        return None if self.admin_port is None else (self.admin_host, self.admin_port)


def admin_options(command: Command) -> Command:
    """Add the options of the admin port to a command, as the argument `admin`."""
    rules = [needs("admin_host", "admin_port")]
    return gather_options(command, "admin", AdminOptions, "Operators", rules)
