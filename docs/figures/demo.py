"""Draws the demo's rows: `adaptive-batching demo --format json | python docs/figures/demo.py`.

Requests offered beside those answered in time: one picture for light pages and one for dark ones,
in docs/images or the folder that is given. A picture of a busy machine says so.
"""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import style  # noqa: F401  sets what figures have in common

IMAGES = Path(__file__).parents[1] / "images"
COLOURS = {  # ink, grid, offered, answered one by one, answered in batches
    "light": ("#17202c", "#d9dfe7", "#c3ccd8", "#d9772b", "#1f63d6"),
    "dark": ("#e8edf3", "#303b49", "#4a5667", "#f0a94b", "#79a9ff"),
}


def draw(demo: dict[str, Any], path: Path, scheme: str) -> None:
    """Two bars for each row, with numbers; the lower end says how it was run."""
    ink, grid, offered, alone, batched = COLOURS[scheme]
    colours = {f"{part}.color": ink for part in ("text", "xtick", "ytick")}
    within = f"{demo['max_latency'] * 1e3:.0f} ms"
    with mpl.rc_context({**colours, "axes.labelcolor": ink, "axes.edgecolor": grid,
                         "grid.color": grid, "svg.fonttype": "none"}):  # fmt: skip
        figure, chart = plt.subplots(figsize=(7.2, 3.0))
        for place, row in enumerate(demo["phases"]):
            one_by_one = row["max_batch_size"] == 1
            answered = row["on_time_per_second"]
            chart.bar(place - 0.2, row["offered"], 0.38, color=offered)
            chart.bar(place + 0.2, answered, 0.38, color=alone if one_by_one else batched)
            chart.text(place + 0.2, answered, f"{answered:,.0f}", ha="center", va="bottom")
            chart.text(place - 0.2, row["offered"], f"{row['offered']:,.0f}", ha="center",
                       va="bottom", color=ink, alpha=0.7)  # fmt: skip
        names = ["one by one" if row["max_batch_size"] == 1 else "in batches of\n"
                 f"{row['mean_batch_size']:.0f} on average" for row in demo["phases"]]  # fmt: skip
        chart.set_xticks(range(len(names)), names)
        chart.grid(visible=False, axis="x")
        chart.set(ylabel="requests a second")
        where = ", on a busy machine" if demo["disturbed"] else ""
        chart.set_title(f"Offered (grey), and answered within {within} (in colour){where}")
        figure.savefig(path, transparent=True, metadata={"Date": None})
        plt.close(figure)


if __name__ == "__main__":
    rows = json.load(sys.stdin)
    folder = Path(sys.argv[1]) if sys.argv[1:] else IMAGES
    for scheme in COLOURS:
        draw(rows, folder / f"demo-{scheme}.svg", scheme)
