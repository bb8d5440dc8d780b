"""What docs/how-to/serve/ray.md shows, run as it stands by a program that joins the cluster."""

import os
import subprocess
import sys
from pathlib import Path

from sybil import Sybil
from sybil.parsers.markdown import CodeBlockParser

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "serve" / "ray.md"


class _Shown(CodeBlockParser):
    language = "py"  # not python: the page's code needs a cluster

    def evaluate(self, example):
        """Nothing: it is run as a program."""


def test_the_example_of_the_page(cluster, tmp_path):
    """A model in actors answers."""
    (example,) = Sybil([_Shown()], path=str(PAGE.parent)).parse(PAGE).examples()
    script = tmp_path / "page.py"
    script.write_text(example.parsed)
    ours = os.environ | {"RAY_ADDRESS": cluster.address}
    shown = subprocess.run([sys.executable, script], env=ours, capture_output=True, check=True)
    assert shown.stdout.split() == [b"42"]
