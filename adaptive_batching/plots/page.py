"""A report as one HTML file: no script, no network, light and dark, phone and paper."""

from collections.abc import Sequence
from html import escape
from math import inf

from adaptive_batching.plots import figures
from adaptive_batching.plots.runs import Load, PolicyRun
from adaptive_batching.simulation import Limit, Row
from adaptive_batching.simulation.servers.curves import Curve
from adaptive_batching.simulation.study.report import MEANINGS, grid

_CSS = """
:root { color-scheme: light dark; --ink: #1c2126; --soft: #5b6570; --grid: #d5dade;
  --page: #ffffff; --limit: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ec; --soft: #9aa5b0; --grid: #3a424a;
  --page: #14181c; --limit: #ff8a80; } }
@media print { :root { --ink: #000; --soft: #444; --grid: #ccc; --page: #fff; --limit: #b00; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 1rem; background: var(--page);
  color: var(--ink); font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.4rem; line-height: 1.25; margin: .5rem 0; overflow-wrap: anywhere; }
p { color: var(--soft); margin: .25rem 0; max-width: 44rem; }
b { color: var(--ink); }
.wide { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; white-space: nowrap;
  font-size: .9rem; }
th, td { padding: .3rem .5rem; text-align: right; border-bottom: 1px solid var(--grid); }
th { color: var(--soft); font-weight: 600; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
main { display: grid; gap: 1.5rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); }
svg { width: 100%; height: auto; display: block; }
svg text { font-family: system-ui, sans-serif !important; }
figure { margin: 0; break-inside: avoid; }
@media (max-width: 75rem) { table { font-size: .75rem; } th, td { padding: .3rem .35rem; } }
@media print { body { max-width: none; padding: 0; font-size: 9pt; }
  main { grid-template-columns: 1fr 1fr; } .wide { overflow: visible; }
  table { font-size: 7pt; }
  th, td { padding: .15rem .3rem; } }
"""


def page(
    title: str,
    rows: Sequence[Row],
    runs: Sequence[PolicyRun],
    *,
    max_latency: float = inf,
    limit: Limit | None = None,
    loads: Sequence[Load] = (),
    mean: Curve | None = None,
) -> str:
    """The report.

    Args:
        title: What was simulated.
        rows: The table, a row for each run.
        runs: The same with their records.
        max_latency: The promise (seconds).
        limit: What no policy beats, at the load of the table.
        loads: The traffic at other densities; no curves over the load without.
        mean: Seconds by batch size that the workers take in truth, if one curve says that.
    """
    names = [run.name for run in runs]
    by_load = (figures.goodput_by_load, figures.latency_by_load) if loads else ()
    drawn = [
        *(figure(loads, names) for figure in by_load),
        figures.latencies(runs, max_latency),
        figures.batch_sizes(runs),
        figures.queues(runs),
        figures.gaps(runs),
        figures.durations(runs, mean),
    ]
    body = "\n".join(f"<figure>{svg}</figure>" for svg in drawn)
    known = "" if limit is None else f"<p>{escape(str(limit))}</p>"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_CSS}</style>\n</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n{known}\n{_table(rows, limit)}\n<main>\n{body}\n</main>\n"
        "</body>\n</html>\n"
    )


def _table(rows: Sequence[Row], limit: Limit | None) -> str:
    headings, *lines = grid(rows, None if limit is None else limit.goodput)
    heads = "".join(f"<th>{escape(name)}</th>" for name in headings)
    body = "\n".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>" for line in lines
    )
    told = "; ".join(f"<b>{name}</b>: {MEANINGS[name]}" for name in headings if name in MEANINGS)
    return f'<div class="wide"><table>\n<tr>{heads}</tr>\n{body}\n</table></div>\n<p>{told}.</p>'
