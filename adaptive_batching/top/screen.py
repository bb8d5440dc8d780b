"""What is known of each endpoint, in some lines of a terminal."""

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from adaptive_batching.instrumentation.live import EndpointView, Second, SloState, WorkerView
from adaptive_batching.top.state import LastMinute
from adaptive_batching.units import counted, format_duration

_WORDS = {
    SloState.IDLE: ("idle", "dim"),
    SloState.KEPT: ("met", "bold green"),
    SloState.REFUSING: ("met by refusing", "bold yellow"),
    SloState.BROKEN: ("missed", "bold red"),
    SloState.FAILING: ("failing", "bold red"),
}
_BUSY, _IDLE, _DEAD = "■", "□", "✕"
_SLOW = 1.5  # times as long as most, from where it is worth a word


def drawn(state: LastMinute, title: str, only: Sequence[str] = ()) -> RenderableType:
    """All endpoints, or some.

    Args:
        state: What is known.
        title: The first line.
        only: Names of those that are shown; none means all.
    """
    shown = [each for each in state.endpoints.values() if not only or each.name in only]
    return Group(Text(title, style="bold"), *(_of(each, state) for each in shown))


def _of(endpoint: EndpointView, state: LastMinute) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    for label, value in _lines(endpoint, state):
        grid.add_row(f"  {label}", value)
    word, style = _WORDS[endpoint.promise.verdict]
    return Group(Text(), Text.assemble((endpoint.name, "bold"), "  ", (word, style)), grid)


def _lines(endpoint: EndpointView, state: LastMinute) -> Iterator[tuple[str, RenderableType]]:
    promise, now = endpoint.promise, state.now(endpoint.name)
    length = sum(second.length for second in now) or 1.0
    yield "SLO", _slo(endpoint)
    yield "latency", _latency(endpoint)
    came = sum(second.arrived for second in now) / length
    done = sum(second.done for second in now) / length
    refused = f"{_share(promise.refused)} refused in the last minute"
    yield "requests", f"{_rate(done)} of {_rate(came)} answered, {refused}"
    yield "batches", _batches(endpoint, now, length)
    reasons = state.reasons(endpoint.name).items()
    leave = ", ".join(f"{why.replace('_', ' ')} {_share(share)}" for why, share in reasons)
    yield "leave", leave or "none in the last minute"
    waiting = f"{counted(endpoint.queued, 'item')} of {endpoint.max_queue:,}"
    yield "waiting", f"{waiting}, {format_duration(endpoint.queued_seconds)} of work"
    yield "workers", _workers(endpoint, now, length)


def _slo(endpoint: EndpointView) -> str:
    promise = endpoint.promise
    if promise.verdict is SloState.IDLE:
        return "no request arrived in the last minute"
    said = f"{_share(promise.in_time)} of accepted requests were answered"
    in_time = "" if endpoint.max_latency is None else " in time"
    return (
        f"{said}{in_time} in the last minute: {promise.expired:,} late, {promise.failed:,} failed"
    )


def _latency(endpoint: EndpointView) -> str:
    values = zip(("p50", "p90", "p99"), endpoint.lately, strict=True)
    said = [f"{name} {format_duration(value)}" for name, value in values if value is not None]
    latest = endpoint.max_latency
    limit = "no max_latency" if latest is None else f"max_latency {format_duration(latest)}"
    return ", ".join([*said, limit])


def _batches(endpoint: EndpointView, now: Sequence[Second], length: float) -> str:
    batches, items = sum(each.batches for each in now), sum(each.items for each in now)
    if not endpoint.batches:
        return f"none yet; {counted(endpoint.max_batch_size, 'item')} at most"
    size = f"{items / batches:.3g}" if batches else "0"
    line = f"{format_duration(endpoint.fixed)} + {format_duration(endpoint.per_item)} an item"
    shown = f"{size} items of {endpoint.max_batch_size}, {_rate(batches / length)}"
    return f"{shown}; they take {line}{_padding(now)}"


def _padding(now: Sequence[Second]) -> str:
    """How much of the work is padding, where items or batches are padded."""
    cost, own = sum(each.cost for each in now), sum(each.own_cost for each in now)
    return f"; {_share(max(0.0, 1 - own / cost))} of the work is padding" if cost else ""


def _workers(endpoint: EndpointView, now: Sequence[Second], length: float) -> Text:
    """A mark for each, how much they had to do, and those that need a look."""
    said = Text()
    for worker in endpoint.workers:
        mark = _DEAD if not worker.alive else _IDLE if worker.busy_since is None else _BUSY
        said.append(f"{mark} ", style="" if worker.alive else "red")
    alive = sum(second.workers * second.length for second in now) / length
    busy = sum(second.busy for second in now) / length
    if alive:
        said.append(f" busy {_share(min(1.0, busy / alive))},")
    said.append(f" {_share(endpoint.saturation)} of what full batches could carry")
    for fault in _faults(endpoint.workers):
        said.append(f"; {fault}", style="red")
    return said


def _faults(workers: Sequence[WorkerView]) -> Iterator[str]:
    """What is wrong, by the name of the worker or its index; a server has one or more workers."""
    up = {worker.name for worker in workers if worker.alive}
    yield from (f"{name} is down" for name in _names(workers) if name not in up)
    for index, worker in enumerate(workers):
        called = f"worker {index} ({worker.name})" if worker.name else f"worker {index}"
        if not worker.alive and worker.name in {"", *up}:
            yield f"{called} is down"
        elif worker.alive and worker.slowness >= _SLOW:
            yield f"{called} takes {worker.slowness:.1f} times as long"


def _names(workers: Sequence[WorkerView]) -> Sequence[str]:
    return [*dict.fromkeys(worker.name for worker in workers if worker.name)]


def _rate(value: float) -> str:
    return f"{value:,.0f}/s" if value >= 100 else f"{value:.3g}/s"


def _share(value: float) -> str:
    """Rounded so that neither none nor all is said of what is neither."""
    if 0 < value < 1e-4:
        return "<0.01 %"
    if 1 - 1e-4 < value < 1:
        return ">99.99 %"
    percent = value * 100
    return f"{percent:.2f} %" if 99 < percent < 100 else f"{percent:.3g} %"
