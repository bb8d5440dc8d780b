"""The pictures of the documentation are there, small, and can be made anew."""

import json
import re
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
DRAW = [sys.executable, str(DOCS / "figures" / "demo.py")]


def test_pictures_that_pages_show_are_there_and_small() -> None:
    """None takes more than 100 kB; none needs the network, of a font for example."""
    named = {
        (page.parent / name).resolve()
        for page in DOCS.rglob("*.md")
        for name in re.findall(r"^ *```\{image\} (\S+)", page.read_text(), re.MULTILINE)
    }
    assert {picture.name for picture in named} >= {"dashboard-dark.png", "top.svg"}
    there = set((DOCS / "images").iterdir())
    assert named <= there
    assert not [picture for picture in there if picture.stat().st_size >= 100_000]
    drawings = [picture.read_text() for picture in there if picture.suffix == ".svg"]
    assert not [text for text in drawings if re.search(r"url\([\"']?http|@import|<image", text)]


def test_the_demo_is_drawn_as_it_went(tmp_path: Path) -> None:
    """Numbers of all rows, for light pages and dark ones; a busy machine is named."""
    phases = [
        {"max_batch_size": 1, "mean_batch_size": 1.0, "offered": 555.0, "on_time_per_second": 77.0},
        {"max_batch_size": 64, "mean_batch_size": 9.0, "offered": 556.0, "on_time_per_second": 432},
    ]
    demo = {"max_latency": 0.12, "disturbed": True, "phases": phases}
    subprocess.run([*DRAW, tmp_path], input=json.dumps(demo), text=True, check=True)
    for scheme in ("light", "dark"):
        drawn = (tmp_path / f"demo-{scheme}.svg").read_text()
        assert "on a busy machine" in drawn
        assert [number for number in (555, 77, 556, 432) if f">{number}<" not in drawn] == []
