"""What a simulation came to: one row for each policy and number of workers."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal

import numpy as np
from rich import box
from rich.table import Table

from adaptive_batching.core import BatchRecord, JobOutcome, JobRecord
from adaptive_batching.simulation.kernel.history import History
from adaptive_batching.simulation.traffic.arrivals import Times

_KEYS_SHOWN = 10  # in a table; a program gets all of them
_KEY_SHOWN = 40  # characters

SHED = frozenset({JobOutcome.SHED, JobOutcome.QUEUE_FULL, JobOutcome.EXPIRED})
"""Turned away in one way or another."""


@dataclass(frozen=True, slots=True)
class KeyFigures:
    """How the requests of one batch key, or of one tenant, fared; as of a `Row`."""

    requests: int
    goodput: float
    mean_latency: float | None
    p99_latency: float | None


@dataclass(frozen=True, slots=True)
class Row:
    """How one policy did. Times in seconds; None where there was nothing to measure.

    Attributes:
        policy: Its name.
        workers: Batches that could run at the same time.
        requests: Requests that arrived after the warm-up, answered or not.
        on_time: Answered by their own deadlines; all that were answered when there is none.
        late: Answered after it.
        shed: Refused, turned away by a full queue, or expired in the queue.
        failed: Answered with an error, or given up by the caller.
        goodput: Share of all requests that were answered on time.
        throughput: Answers a second, from the first arrival that was answered to the last answer.
        mean_latency: From arrival to answer, of those answered.
        p50_latency: Median of the same.
        p99_latency: 99th percentile of the same.
        mean_batch_size: Items.
        batches: Batches released after the warm-up.
        release_gap_cv: Standard deviation of the gaps between releases by their mean: 0 for
            batches evenly spaced, 1 for random ones, more when they bunch.
        jobs_per_second: Requests simulated in a second of real time.
        sent_again: Times that a refused or late request was sent again, the warm-up included.
        keys: How each batch key fared, the busiest first; None without keys or records.
        tenants: Likewise each tenant.
    """

    policy: str
    workers: int
    requests: int
    on_time: int
    late: int
    shed: int
    failed: int
    goodput: float | None
    throughput: float | None
    mean_latency: float | None
    p50_latency: float | None
    p99_latency: float | None
    mean_batch_size: float | None
    batches: int
    release_gap_cv: float | None
    jobs_per_second: float | None
    sent_again: int = 0
    keys: dict[str, KeyFigures] | None = None
    tenants: dict[str, KeyFigures] | None = None


def summarize(
    history: History,
    *,
    policy: str,
    workers: int,
    warmup: float = 0.0,
    elapsed: float = 0.0,
) -> Row:
    """Make a row of what happened.

    Args:
        history: The records.
        policy: Name for the row.
        workers: Number for the row.
        warmup: What arrived or left before this instant is not counted (seconds).
        elapsed: Real seconds that the simulation took.
    """
    jobs = [job for job in history.jobs if job.arrived >= warmup]
    batches = [batch for batch in history.batches if batch.released >= warmup]
    answered = [job for job in jobs if job.outcome is JobOutcome.DONE]
    shed = sum(job.outcome in SHED for job in jobs)
    on_time = sum(job.finished <= job.deadline for job in answered)
    mean, p50, p99 = _latencies(answered)
    return Row(
        policy=policy,
        workers=workers,
        requests=len(jobs),
        on_time=on_time,
        late=len(answered) - on_time,
        shed=shed,
        failed=len(jobs) - len(answered) - shed,
        goodput=on_time / len(jobs) if jobs else None,
        throughput=_throughput(answered),
        mean_latency=mean,
        p50_latency=p50,
        p99_latency=p99,
        mean_batch_size=sum(b.size for b in batches) / len(batches) if batches else None,
        batches=len(batches),
        release_gap_cv=_gap_cv(batches),
        jobs_per_second=len(history.jobs) / elapsed if elapsed > 0 else None,
        keys=_figures(jobs, attrgetter("key")),
        tenants=_figures(jobs, attrgetter("tenant")),
    )


def table(rows: Sequence[Row], title: str, limit: float | None = None) -> Table:
    """The rows for people, latencies in milliseconds.

    Args:
        rows: One line each.
        title: Above them.
        limit: The goodput that no policy beats, to add each row's share of it.
    """
    drawn = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    headings, *lines = grid(rows, limit)
    for name in headings:
        drawn.add_column(name, justify="left" if name == "policy" else "right", no_wrap=True)
    for line in lines:
        drawn.add_row(*line)
    return drawn


def parts_table(rows: Sequence[Row], of: Literal["key", "tenant"]) -> Table:
    """The busiest keys or tenants of each row, for people."""
    drawn = Table(box=box.SIMPLE_HEAD)
    for name in ("policy", "workers", of, "requests", "goodput", "mean ms", "p99 ms"):
        side: Literal["left", "right"] = "left" if name in {"policy", of} else "right"
        drawn.add_column(name, justify=side, no_wrap=True)
    for row in rows:
        figures_of_each = row.keys if of == "key" else row.tenants
        for key, figures in list((figures_of_each or {}).items())[:_KEYS_SHOWN]:
            drawn.add_row(
                row.policy,
                str(row.workers),
                _short(key),
                f"{figures.requests:,}",
                _percent(figures.goodput),
                _ms(figures.mean_latency),
                _ms(figures.p99_latency),
            )
    return drawn


def _short(key: str) -> str:
    """A key in a table, where its figures need room as well."""
    return key if len(key) <= _KEY_SHOWN else f"{key[: _KEY_SHOWN - 10]}…{key[-9:]}"


def grid(rows: Sequence[Row], limit: float | None = None) -> list[list[str]]:
    """The headings, and the cells of each row under them; the arguments are those of `table`.

    There is a column for failed requests if there are any.
    """
    failing = any(row.failed for row in rows)
    known = [column for column in _COLUMNS if failing or column[0] != "failed"]
    if limit is not None:
        known.append(("of limit", lambda row: _percent(_part(row.goodput, limit))))
    return [
        [heading for heading, _ in known],
        *([shown(row) for _, shown in known] for row in rows),
    ]


def _figures(
    jobs: list[JobRecord], part: Callable[[JobRecord], Hashable]
) -> dict[str, KeyFigures] | None:
    """By what the records say there, the busiest first; None if they say nothing."""
    members: defaultdict[Hashable, list[JobRecord]] = defaultdict(list)
    for job in jobs:
        members[part(job)].append(job)
    if members.keys() <= {None}:
        return None
    figures = {}
    for key, ones in sorted(members.items(), key=lambda item: -len(item[1])):
        mean, _, p99 = _latencies([job for job in ones if job.outcome is JobOutcome.DONE])
        on_time = sum(job.in_time for job in ones)
        name = "" if key is None else str(key)
        figures[name] = KeyFigures(len(ones), on_time / len(ones), mean, p99)
    return figures


def _latencies(answered: list[JobRecord]) -> tuple[float | None, float | None, float | None]:
    if not answered:
        return None, None, None
    latencies: Times = np.array([job.finished - job.arrived for job in answered])
    p50, p99 = np.percentile(latencies, [50, 99])
    return float(latencies.mean()), float(p50), float(p99)


def _throughput(answered: list[JobRecord]) -> float | None:
    if not answered:
        return None
    span = max(job.finished for job in answered) - min(job.arrived for job in answered)
    return len(answered) / span if span > 0 else None


def _gap_cv(batches: list[BatchRecord]) -> float | None:
    gaps = np.diff(np.sort(np.array([batch.released for batch in batches])))
    mean = float(gaps.mean()) if len(gaps) else 0.0
    return float(gaps.std()) / mean if mean > 0 else None


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.2%}"


def _share(part: int, whole: int) -> str:
    return _percent(_part(part, whole))


def _part(part: float | None, whole: float) -> float | None:
    return part / whole if part is not None and whole else None


def _ms(seconds: float | None) -> str:
    return _plain(None if seconds is None else seconds * 1e3, ".2f")


def _a_second(rate: float | None) -> str:
    return _plain(rate, ".2g" if rate is not None and rate < 9.5 else ",.0f")


def _plain(value: float | None, style: str) -> str:
    return "-" if value is None else format(value, style)


MEANINGS = {
    "goodput": "share of all requests that were answered in time",
    "late": "share that was answered after its deadline",
    "shed": "share that was refused, found the queue full or expired in it",
    "failed": "share that got an error, or whose client gave up",
    "answers/s": "answers a second",
    "batch": "mean items in a batch",
    "gap CV": "how unevenly batches leave: 0 at equal distances, 1 at random, more in bunches",
    "jobs/s": "how fast this was simulated: requests in a second of real time",
    "of limit": "goodput as a share of what no policy beats",
}
"""What a column of `grid` says, by its heading; the others say it themselves."""

_COLUMNS: tuple[tuple[str, Callable[[Row], str]], ...] = (
    ("policy", lambda row: row.policy),
    ("workers", lambda row: str(row.workers)),
    ("goodput", lambda row: _percent(row.goodput)),
    ("late", lambda row: _share(row.late, row.requests)),
    ("shed", lambda row: _share(row.shed, row.requests)),
    ("failed", lambda row: _share(row.failed, row.requests)),
    ("answers/s", lambda row: _a_second(row.throughput)),
    ("mean ms", lambda row: _ms(row.mean_latency)),
    ("p50 ms", lambda row: _ms(row.p50_latency)),
    ("p99 ms", lambda row: _ms(row.p99_latency)),
    ("batch", lambda row: _plain(row.mean_batch_size, ".1f")),
    ("gap CV", lambda row: _plain(row.release_gap_cv, ".2f")),
    ("jobs/s", lambda row: _plain(row.jobs_per_second, ",.0f")),
)
