"""What the demonstration has shown, for people and for machines."""

from dataclasses import asdict
from typing import Any

from rich import box
from rich.console import Group
from rich.table import Table

from adaptive_batching.demo.digits import BatchDuration
from adaptive_batching.demo.experiment import MAX_LATENCY, Findings


def as_json(findings: Findings) -> dict[str, Any]:
    """Plain data; all times in seconds."""
    return {
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
    return Group(_table(findings), *_sentences(findings))


def _table(findings: Findings) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("batching")
    for name in ("offered /s", "in time /s", "p50 ms", "p99 ms", "mean batch", "refused"):
        table.add_column(name, justify="right")
    for phase in findings.phases:
        table.add_row(
            f"up to {phase.max_batch_size}" if phase.max_batch_size > 1 else "off",
            f"{phase.offered:,.0f}",
            f"{phase.on_time_per_second:,.0f}",
            _milliseconds(phase.p50),
            _milliseconds(phase.p99),
            f"{phase.mean_batch_size:.1f}",
            f"{phase.refused:,}",
        )
    return table


def _sentences(findings: Findings) -> list[str]:
    fit = f"A batch of n takes {_line(findings.fitted)}, says the fit"
    truth = f"{_line(findings.measured)} measured on the model alone"
    more = "the rest is transport, JSON and whatever else the machine does under load"
    compared = f"All {findings.answers:,} answers are the model's own"
    if findings.wrong or findings.lost:
        compared = f"{findings.wrong:,} answers were WRONG and {findings.lost:,} LOST"
    gain = f"Batching answers {findings.gain:.1f} times as many requests within"
    return [f"{fit}; {truth}; {more}.", f"{compared}. {gain} {MAX_LATENCY * 1e3:.0f} ms."]


def _line(line: BatchDuration | None) -> str:
    return f"{line.fixed * 1e3:.2f} ms + {line.per_item * 1e3:.3f} ms * n" if line else "unknown"


def _milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e3:.1f}"
