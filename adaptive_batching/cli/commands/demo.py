"""`adaptive-batching demo`: see it work, on a real model over real HTTP."""

import asyncio
import importlib.util
import json
import logging
import sys
from contextlib import AsyncExitStack

import click
from rich.console import Console

from adaptive_batching.cli.options.parameters import FORMAT


@click.command()
@FORMAT
@click.option("--keep", is_flag=True, help="Leave the service up afterwards, until Ctrl-C.")
@click.option(
    "--seconds",
    default=4.0,
    type=click.FloatRange(min=0.1),
    help="Seconds for which each of the five rows is measured.",
)
def command(form: str, *, keep: bool, seconds: float) -> None:
    """Batch single requests for a real model over HTTP and compare every answer.

    Trains a random forest on handwritten digits, serves it from a pinned worker process, and sends
    it requests at rates that don't depend on its answers: first with batching off, then on. Exits
    with 1 if any answer was wrong or lost.
    """
    if importlib.util.find_spec("sklearn") is None:
        raise click.ClickException("the demo trains a scikit-learn model: pip install scikit-learn")
    # It overloads the service on purpose; what is refused stands in the table.
    logging.getLogger("adaptive_batching").setLevel(logging.ERROR)
    good = asyncio.run(_demonstrate(form, keep=keep, seconds=seconds))
    sys.exit(0 if good else 1)


async def _demonstrate(form: str, *, keep: bool, seconds: float) -> bool:
    from adaptive_batching.demo.experiment import Demonstration  # noqa: PLC0415  the extra
    from adaptive_batching.demo.report import as_json, as_text  # noqa: PLC0415

    async with AsyncExitStack() as stack:
        with Console(stderr=True).status("starting") as status:
            demonstration = Demonstration(seconds, status.update)
            await demonstration.unbatched()
            running = await stack.enter_async_context(demonstration.batched())
        findings = demonstration.findings
        if form == "json":
            click.echo(json.dumps(as_json(findings)))
        else:
            Console().print(as_text(findings))
        if keep:
            _say_where(running.url)
            await asyncio.get_running_loop().create_future()
    return not (findings.wrong or findings.lost)


def _say_where(url: str) -> None:
    image = json.dumps([0] * 64)
    click.echo(f"The service is up until Ctrl-C:\n  curl -d '{image}' {url}/predict", err=True)
    for page in ("healthz", "readyz", "metrics"):
        click.echo(f"  {url}/{page}", err=True)
