"""What the demonstration has shown, for people and for machines."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich import box
from rich.console import Group
from rich.table import Table

from adaptive_batching.demo.digits import BatchDuration
from adaptive_batching.demo.experiment import Findings


def as_json(findings: Findings) -> dict[str, Any]:
    """Plain data; all times in seconds."""
    return {
        "max_latency": findings.max_latency,
        "disturbed": findings.disturbed,
        "not_sent": findings.not_sent,
        "answers": findings.answers,
        "wrong": findings.wrong,
        "lost": findings.lost,
        "gain": findings.gain,
        "phases": [asdict(phase) for phase in findings.phases],
        "fitted": findings.fitted and findings.fitted._asdict(),
        "measured": findings.measured and findings.measured._asdict(),
    }


def as_text(findings: Findings) -> Group:
    """A table, the fitted line beside the true one, and what it all comes to."""
    return Group("", _table(findings), "", *_sentences(findings))


def _table(findings: Findings) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)  # fits 80 columns
    table.add_column("batching", no_wrap=True)
    table.add_column("load", no_wrap=True)
    for name in ("offered\n/s", "in time\n/s", "p50\nms", "p99\nms", "mean\nbatch", "refused"):
        table.add_column(name, justify="right", no_wrap=True)
    for phase in findings.phases:
        table.add_row(
            f"up to {phase.max_batch_size}" if phase.max_batch_size > 1 else "off",
            phase.load,
            f"{phase.offered:,.0f}",
            f"{phase.on_time_per_second:,.0f}",
            _milliseconds(phase.p50),
            _milliseconds(phase.p99),
            f"{phase.mean_batch_size:.1f}",
            f"{phase.refused:,}",
        )
    return table


def _sentences(findings: Findings) -> Iterator[str]:
    within = f"{findings.max_latency * 1e3:.0f} ms"
    yield (
        "Load 1 is what the model can do, with each request alone or with full batches. In time is"
        f" within {within}: five full batches."
    )
    last = findings.phases[-1]
    if findings.not_sent is not None:
        yield (
            f"More than {findings.not_sent:,.0f} requests/s this machine can't send and answer at"
            " the same time, so no more were offered."
        )
    elif last.max_batch_size > 1:
        yield (
            "The last row offers more than the model can do: of its requests"
            f" {last.on_time_per_second:,.0f} a second are still answered in time, and"
            f" {last.refused:,} were refused early, with 503."
        )
    fitted, measured = _line(findings.fitted), _line(findings.measured)
    yield (
        f"The service has learned that a batch of n takes {fitted}. The model alone took"
        f" {measured}; the rest is transport, JSON and what else the machine does under load."
    )
    if findings.wrong or findings.lost:
        yield f"{findings.wrong:,} answers were WRONG and {findings.lost:,} LOST."
    else:
        yield (
            f"All {findings.answers:,} answers are the model's own. Batching answers"
            f" {findings.gain:.1f} times as many requests in time."
        )
    if findings.disturbed:
        yield (
            "Other programs used this machine's cores as well, which these figures show more than"
            " they show batching: run the demo again when the machine is quiet."
        )


def _line(line: BatchDuration | None) -> str:
    return f"{line.fixed * 1e3:.2f} ms + {line.per_item * 1e3:.3f} ms * n" if line else "unknown"


def _milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e3:.1f}"
