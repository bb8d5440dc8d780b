"""The rooms of the package on their floors: lines of each, and who imports whom, from the code."""

import ast
import tomllib
from collections import Counter
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.patches import FancyArrowPatch, Rectangle
from style import CORK, LIMIT

import adaptive_batching

PACKAGE = adaptive_batching.__name__
ROOT = Path(adaptive_batching.__file__).parents[1]
FLOORS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
LAYERS = [layer.split(" | ") for layer in FLOORS[0]["layers"]]


def room_of(module: str) -> str:
    """`marshal.http.router` stands in `marshal.http`, `core.scheduler` in `core`."""
    parts = module.split(".")[1:]
    return ".".join(parts[: 2 if parts[:1] == ["marshal"] and len(parts) > 2 else 1])


lines: Counter[str] = Counter()
arrows: Counter[tuple[str, str]] = Counter()
for file in (ROOT / PACKAGE).rglob("*.py"):
    here = room_of(".".join(file.relative_to(ROOT).with_suffix("").parts))
    text = file.read_text()
    lines[here] += text.count("\n")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(PACKAGE):
            arrows[here, room_of(f"{node.module}.")] += 1

INSIDE = ["marshal.admin", "marshal.config", "marshal.service", "marshal.sidecar", "marshal.http"]
rows = []
for layer in LAYERS:
    names = [name.removeprefix(f"{PACKAGE}.") for name in layer]
    rows += [INSIDE[:2], INSIDE[2:4], INSIDE[4:]] if names == ["marshal"] else [names]

figure, chart = plt.subplots(figsize=(8.0, 0.5 * len(rows)))
places = {}
for y, row in enumerate(reversed(rows)):
    width = 10.0 / len(row)
    for x, name in enumerate(row):
        places[name] = ((x + 0.5) * width, y)
        inside = name in INSIDE
        box = (x * width + 0.1, y - 0.3), width - 0.2, 0.6
        chart.add_patch(Rectangle(*box, facecolor=CORK if inside else LIMIT, alpha=0.25))
        short = name.removeprefix("__").removesuffix("__").replace("_", " ")
        chart.text(*places[name], f"{short}\n{lines[name]:,}", ha="center", va="center", fontsize=6)
for (start, end), count in arrows.items():
    if start in places and end in places and start != end and places[start][1] > places[end][1]:
        style = {"arrowstyle": "-", "lw": 0.1 + count / 50, "color": "black", "alpha": 0.2}
        chart.add_patch(FancyArrowPatch(places[start], places[end], zorder=0, **style))
chart.set(xlim=(0, 10), ylim=(-0.6, len(rows) - 0.4))
chart.axis("off")
