"""How the tenants of a route share its servers."""

import click

from adaptive_batching.cli.option_groups import Command, add_options
from adaptive_batching.cli.parameters import DURATION

_OPTIONS = (
    click.option(
        "--tenant-weight",
        "tenant_weights",
        multiple=True,
        metavar="TENANT=WEIGHT",
        help="Of --tenant-header: his part of the servers, gold=3; 1 for all others. Repeat.",
    ),
    click.option(
        "--priority-header",
        default="",
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
