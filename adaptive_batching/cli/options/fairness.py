"""Who shares the batches of a route, and how its tenants share the servers."""

import click

from adaptive_batching.cli.options.groups import Command, add_options
from adaptive_batching.cli.options.parameters import DURATION

_OPTIONS = (
    click.option(
        "--partition-by",
        multiple=True,
        metavar="HEADER",
        help="Keeps requests apart by this as well: X-Tenant; the servers are told it. By Accept,"
        " Authorization and X-Api-Key they are in any case. Repeat.",
    ),
    click.option(
        "--shared-header",
        "shared_headers",
        multiple=True,
        envvar="ADAPTIVE_BATCHING_SHARED_HEADER",
        metavar="HEADER",
        help="Accept, Authorization or X-Api-Key: does not keep requests apart, and the servers"
        " are not told it in a batch. Repeat.",
    ),
    click.option(
        "--tenant-weight",
        "tenant_weights",
        multiple=True,
        envvar="ADAPTIVE_BATCHING_TENANT_WEIGHT",
        metavar="TENANT=WEIGHT",
        help="Of --tenant-header: his part of the servers, gold=3; 1 for all others. Repeat.",
    ),
    click.option(
        "--priority-header",
        help="In which requests say `high`, to go before others of their tenant: X-Priority.",
    ),
    click.option(
        "--ageing",
        type=DURATION,
        show_default="a quarter of --max-latency, or 1s",
        help="What comes so much later goes before no normal request of its tenant.",
    ),
)


def fairness_options(command: Command) -> Command:
    """Add them."""
    return add_options(command, _OPTIONS)
