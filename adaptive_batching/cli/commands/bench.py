"""`adaptive-batching bench`: what batching costs here and now, beside bare baselines."""

import asyncio
import json
import random
from collections.abc import Coroutine, Mapping
from types import ModuleType
from typing import Any, Protocol

import click
from rich.console import Console

from adaptive_batching.bench import (
    calls,
    cooperative,
    growth,
    http,
    imports,
    pipeline,
    sidecar,
    simulator,
    walk,
    wire,
    workers,
)
from adaptive_batching.bench.chaos import run as chaos
from adaptive_batching.bench.harness.loops import LOOPS, loop_factory
from adaptive_batching.bench.harness.report import Report, Unavailable
from adaptive_batching.cli.endings import writing
from adaptive_batching.cli.options.parameters import FORMAT, SECONDS

_WIDTH = 130  # a line that the terminal wraps is better than a number cut short

Measurement = Coroutine[Any, Any, list[Report]]


class Part(Protocol):
    """Measures one part of a benchmark."""

    async def __call__(self, *, loop: str, quick: bool) -> Report: ...  # noqa: D102


def _checked(_context: click.Context, _parameter: click.Parameter, loop: str) -> str:
    try:
        loop_factory(loop)
    except ModuleNotFoundError:
        hint = "uvloop is not installed: pip install uvloop"
        raise click.UsageError(hint) from None
    return loop


_quick = click.option("--quick", is_flag=True, help="A short run, to see that it works.")
_loop = click.option(
    "--loop",
    type=click.Choice(LOOPS),
    default="asyncio",
    show_default=True,
    callback=_checked,
    help="The event loop of both contestants.",
)


@click.group()
def command() -> None:
    """Measure the cost of batching beside bare baselines.

    Both figures of a ratio come from the same run, in turns. Absolute figures depend on the machine
    and its load. A requirement that is not met is reported, without an error status.
    """


@command.command("cooperative")
@click.option(
    "--stress",
    is_flag=True,
    help="Check that 32 threads with 20,000 calls each get their own results.",
)
@_quick
@FORMAT
def _cooperative(form: str, *, stress: bool, quick: bool) -> None:
    """Calls a second of threads that batch for one another."""
    measure = cooperative.measure_stress if stress else cooperative.measure
    _report(_single(measure(quick=quick)), "asyncio", form)


@command.command("ray")
@_quick
@FORMAT
def _ray(form: str, *, quick: bool) -> None:
    """Batches through Ray actors, beside calling them directly."""
    try:
        from adaptive_batching.bench import actors  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        hint = "Ray is not installed: pip install 'ray>=2.52'"
        raise click.UsageError(hint) from None
    _report(_single(actors.measure(quick=quick)), "asyncio", form)


@command.command("walk")
@FORMAT
def _walk(form: str) -> None:
    """Files and calls of ours that one request crosses."""
    _report(walk.measure(), "asyncio", form)


@command.command("chaos")
@click.option(
    "--duration", type=SECONDS, default=60.0, show_default=True, help="Duration of each run."
)
@click.option(
    "--every",
    type=SECONDS,
    default=3.0,
    show_default=True,
    help="Mean time between two attacks.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), help="Seed of calls and attacks; by default a new one."
)
@_loop
@FORMAT
def _chaos(duration: float, every: float, seed: int | None, loop: str, form: str) -> None:
    """Workers killed and stopped at random, beside workers left in peace."""
    if not (duration and every):
        raise click.UsageError(
            "expected a duration and a time from attack to attack of more than 0 s"
        )
    if seed is None:
        seed = random.randrange(2**32)  # noqa: S311  not a secret
    click.echo(f"seed {seed}", err=True)  # known also if it doesn't come to a report
    _report(_single(chaos.measure(duration=duration, every=every, seed=seed)), loop, form)


def _add(name: str, meaning: str, benchmark: ModuleType, *, on_loop: bool) -> None:
    """Add the command of a benchmark that is measured in one go, on a loop to choose or not."""

    @_quick
    @FORMAT
    def measure(form: str, *, quick: bool, loop: str = "asyncio") -> None:
        _report(_single(benchmark.measure(quick=quick)), loop, form)

    command.command(name, help=meaning)(_loop(measure) if on_loop else measure)


def _add_parts(name: str, meaning: str, parts: Mapping[str, Part]) -> None:
    """Add the command of a benchmark whose parts start servers of their own."""

    @click.option(
        "--part",
        "chosen",
        type=click.Choice(list(parts)),
        multiple=True,
        default=list(parts),
        help="Measure this alone; repeat for several.",
    )
    @_loop
    @_quick
    @FORMAT
    def measure(chosen: tuple[str, ...], loop: str, form: str, *, quick: bool) -> None:
        _report(_parts(parts, chosen, loop, quick=quick), "asyncio", form)

    command.command(name, help=meaning)(measure)


async def _parts(
    measurements: Mapping[str, Part], parts: tuple[str, ...], loop: str, *, quick: bool
) -> list[Report]:
    reports = []
    for part in parts:
        try:
            reports.append(await measurements[part](loop=loop, quick=quick))
        except Unavailable as missing:
            click.echo(f"{part} is left out: {missing}", err=True)
    return reports


async def _single(measurement: Coroutine[Any, Any, Report]) -> list[Report]:
    return [await measurement]


def _report(measurement: Measurement, loop: str, form: str) -> None:
    with asyncio.Runner(loop_factory=loop_factory(loop)) as runner:
        reports = runner.run(measurement)
    with writing():
        _show(reports, form)


def _show(reports: list[Report], form: str) -> None:
    if form == "json":
        answer = {"reports": [report.as_json() for report in reports]}
        click.echo(json.dumps(answer, indent=2, allow_nan=False, ensure_ascii=False))
        return
    console = Console()
    console.width = max(console.width, _WIDTH)
    for report in reports:
        console.print(report.as_table())


_add("calls", "Cost of a call of @batched, in process.", calls, on_loop=True)
_add("workers", "Round trip of a batch to a worker process.", workers, on_loop=True)
_add("pipeline", "Three stages in processes, beside the slowest of them.", pipeline, on_loop=True)
_add(
    "wire", "CPU that one hostile request costs the sidecar, in each protocol.", wire, on_loop=False
)
_add("simulator", "Speed of the simulator.", simulator, on_loop=False)
_add("import", "Time that importing the package takes.", imports, on_loop=False)
_add("growth", "What a request costs, however much waits.", growth, on_loop=False)
_add_parts(
    "http",
    "A service under load: throughput, latency, closed loops, viewers.",
    http.PARTS,
)
_add_parts(
    "sidecar",
    "A sidecar before slow and fast models: throughput, overload, slow clients, a real model.",
    sidecar.PARTS,
)
