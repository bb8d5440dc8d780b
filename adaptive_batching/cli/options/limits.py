"""What a sidecar does not exceed, whoever comes."""

import sys

import click

from adaptive_batching.cli.options.groups import Command, add_options, gather_options
from adaptive_batching.cli.options.parameters import BYTES, DURATION, WholeNumber
from adaptive_batching.cli.options.rules import names_a_header, needs
from adaptive_batching.marshal.sidecar.limits import Bounds

_COUNT = WholeNumber(1, sys.maxsize)
_OF_A_ROUTE = (
    click.option(
        "--max-queue", type=_COUNT, default=1024, show_default=True, help="Items that may wait."
    ),
    click.option(
        "--max-body",
        type=BYTES,
        default="8MiB",
        show_default=True,
        help="Of a request that shares a batch; larger ones are passed on.",
    ),
    click.option(
        "--max-answer",
        type=BYTES,
        default="256MiB",
        show_default=True,
        help="Of a server's answer to a batch.",
    ),
    click.option(
        "--body-timeout",
        type=DURATION,
        default="10s",
        show_default=True,
        help="How long a client may take to send its body.",
    ),
)
_OF_ALL = (
    click.option(
        "--max-queue-bytes",
        type=BYTES,
        default="1GiB",
        show_default=True,
        help="Bytes of all requests that arrive, wait and run in batches.",
    ),
    click.option(
        "--max-in-flight", type=_COUNT, default=4096, show_default=True, help="Requests at a time."
    ),
    click.option(
        "--max-connections",
        type=_COUNT,
        default=sys.maxsize,
        show_default="by the open files that are allowed",
        help="Clients at a time.",
    ),
    click.option("--tenant-header", default="", help="By which tenants are told apart: X-Tenant."),
    click.option(
        "--max-per-tenant",
        type=_COUNT,
        default=256,
        show_default=True,
        help="Requests of one tenant at a time.",
    ),
)


def bounds_options(command: Command) -> Command:
    """Add those of all routes together, as `bounds`, and those of each route."""
    return add_options(bounds_of_all(command), _OF_A_ROUTE)


def bounds_of_all(command: Command) -> Command:
    """Add those that are said beside a file of routes, as `bounds`."""
    rules = [names_a_header("tenant_header"), needs("max_per_tenant", "tenant_header")]
    return gather_options(command, _OF_ALL, "bounds", Bounds, rules)
