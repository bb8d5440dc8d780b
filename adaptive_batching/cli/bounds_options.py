"""What a sidecar does not exceed, whoever comes."""

import sys
from collections.abc import Callable
from functools import reduce
from typing import Any

import click

from adaptive_batching.cli.parameters import BYTES, DURATION

_COUNT = click.IntRange(1, sys.maxsize)
_OPTIONS = (
    click.option(
        "--max-queue", type=_COUNT, default=1024, show_default=True, help="Items that may wait."
    ),
    click.option(
        "--max-queue-bytes",
        type=BYTES,
        default="1GiB",
        show_default=True,
        help="Bytes of all requests that arrive, wait and run in batches.",
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


def bounds_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command."""
    return reduce(lambda decorated, option: option(decorated), reversed(_OPTIONS), command)
