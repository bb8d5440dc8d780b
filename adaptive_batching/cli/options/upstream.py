"""How the model servers behind a sidecar are reached, and what may be asked of them twice."""

from pathlib import Path

import click

from adaptive_batching.cli.options.groups import Command, add_options
from adaptive_batching.cli.options.parameters import DURATION, SHARE, TRUTH, Parsed, WholeNumber
from adaptive_batching.simulation.fitting.model_file import read_model

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_OPTIONS = (
    click.option(
        "--concurrency",
        type=WholeNumber(1, 1000),
        default=1,
        show_default=True,
        help="Batches at a time that each server takes.",
    ),
    click.option(
        "--timeout",
        type=DURATION,
        default="60s",
        show_default=True,
        help="How long a batch may take at the server.",
    ),
    click.option(
        "--idempotent/--not-idempotent",
        type=TRUTH,
        default=True,
        show_default=True,
        help="Whether a request may be sent twice, to find who spoils a batch.",
    ),
    click.option(
        "--latency-from",
        type=Parsed("file", read_model),
        help="How long batches took, until that is learned: what `fit --save` wrote. Triton is"
        " asked otherwise.",
    ),
    click.option(
        "--verify",
        type=SHARE,
        default=0.0,
        help="Send so many requests alone as well, and batch no more where answers differ: 0.1%.",
    ),
    click.option("--upstream-ca", type=_FILE, help="PEM: who signs the servers' certificates."),
    click.option("--upstream-cert", type=_FILE, help="PEM: our own certificate, and its key."),
)


def upstream_options(command: Command) -> Command:
    """Add the options to a command."""
    return add_options(command, _OPTIONS)
