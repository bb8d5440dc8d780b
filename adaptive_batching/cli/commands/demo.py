"""`adaptive-batching demo`: see it work, on a real model over real HTTP."""

import asyncio
import importlib.util
import json
import logging
import sys
import time
from contextlib import AsyncExitStack
from typing import Self

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn


@click.command()
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table")
@click.option("--keep", is_flag=True, help="Leave the service up afterwards, until Ctrl-C.")
@click.option(
    "--seconds", default=4.0, type=click.FloatRange(min=0.1), help="Of each of the six phases."
)
def command(form: str, *, keep: bool, seconds: float) -> None:
    """Batch single requests for a real model over HTTP and compare every answer.

    Trains a random forest on handwritten digits, serves it from a pinned worker process, and sends
    it requests at rates that don't depend on its answers: first with batching off, then on. Exits
    with 1 if any answer was wrong or lost.
    """
    if importlib.util.find_spec("sklearn") is None:
        raise click.ClickException(
            "the demo trains a scikit-learn model: pip install 'adaptive-batching[demo]'"
        )
    # It overloads the service on purpose; what is refused stands in the table.
    logging.getLogger("adaptive_batching").setLevel(logging.ERROR)
    good = asyncio.run(_demonstrate(form, keep=keep, seconds=seconds))
    sys.exit(0 if good else 1)


async def _demonstrate(form: str, *, keep: bool, seconds: float) -> bool:
    from adaptive_batching.demo.experiment import Demonstration  # noqa: PLC0415  the extra
    from adaptive_batching.demo.report import as_json, as_text  # noqa: PLC0415

    async with AsyncExitStack() as stack:
        bar = await stack.enter_async_context(_Bar(7 * seconds))
        demonstration = Demonstration(seconds, bar.next_step)
        await demonstration.unbatched()
        running = await stack.enter_async_context(demonstration.batched())
        await bar.finish()
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


class _Bar:
    """A progress bar on stderr that also moves while a step goes on.

    Args:
        total: Seconds that everything is expected to take.
    """

    def __init__(self, total: float) -> None:
        columns = (TextColumn("{task.description:<45}"), BarColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task("starting", total=total)
        self._reached = 0.0
        self._ticking: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._progress.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.finish()

    def next_step(self, what: str, seconds: float) -> None:
        """Say what is going on and how long it is expected to take."""
        if self._ticking is not None:
            self._ticking.cancel()
        self._progress.update(self._task, description=what, completed=self._reached)
        self._ticking = asyncio.create_task(self._tick(self._reached, seconds))
        self._reached += seconds

    async def finish(self) -> None:
        """Leave the screen to the result."""
        if self._ticking is not None:
            self._ticking.cancel()
        self._progress.stop()

    async def _tick(self, start: float, seconds: float) -> None:
        begin = time.monotonic()
        while (elapsed := time.monotonic() - begin) < seconds:
            self._progress.update(self._task, completed=start + elapsed)
            await asyncio.sleep(0.1)
