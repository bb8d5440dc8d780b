"""What the documentation shows, run as it stands."""

import subprocess
import sys
from pathlib import Path

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SIMULATIONS = sorted((ROOT / "simulations").glob("*.py"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_in_the_documentation_runs(page: Path, tmp_path: Path) -> None:
    """The Python blocks of a page run, one after another, without a warning."""
    document = Sybil([PythonCodeBlockParser()], path=str(ROOT)).parse(page)
    script = tmp_path / "page.py"
    script.write_text("\n".join(example.parsed for example in document.examples()))
    subprocess.run([sys.executable, "-W", "error", script], check=True)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Every link to a file of the project finds it."""
    links = [part.split(")")[0] for part in page.read_text().split("](")[1:]]
    local = [link.split("#")[0] for link in links if not link.startswith("http")]
    assert [link for link in local if link and not (page.parent / link).exists()] == []


@pytest.mark.parametrize("script", SIMULATIONS, ids=lambda script: script.stem)
def test_simulations_still_answer_the_same(script: Path) -> None:
    """The answer beside each simulation is what it prints."""
    shown = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert shown.stdout == script.with_suffix(".out").read_text()
