"""What the documentation shows, run as it stands."""

import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SCRIPTS = [
    page
    for page in PAGES
    if "```python\n" in page.read_text() and page.parent.name != "tutorials"  # test_tutorials.py
]
ANSWERS = sorted((ROOT / "simulations").glob("*.out"))  # what measures a live service has none


def name_of(page: Path) -> str:
    """Its path, as several are called `limits.md`."""
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", SCRIPTS, ids=name_of)
def test_code_in_the_documentation_runs(page: Path, tmp_path: Path) -> None:
    """The Python blocks of a page run, one after another, without a warning.

    Their promises become such as a busy machine keeps.
    """
    document = Sybil([PythonCodeBlockParser()], path=str(ROOT)).parse(page)
    code = "\n".join(example.parsed for example in document.examples())
    script = tmp_path / "page.py"
    if page.name != "testing.md":  # which tells its stories in virtual time
        code = re.sub(r"max_latency=[0-9.]+", "max_latency=60.0", code)
    script.write_text(code)
    subprocess.run([sys.executable, "-W", "error", script], check=True)


def anchors_of(page: Path) -> set[str]:
    """What a link to one of a page's headings has after its `#`."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    """Every link to a file of the project finds it, with the heading that it names."""
    prose = re.sub(r"^```.*?^```$|`[^`\n]*`", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    links = re.findall(r"\]\(([^)]*)|src(?:set)?=\"([^\"]*)", prose)
    local = [link for link in map("".join, links) if not link.startswith("http")]
    for file, _, heading in (link.partition("#") for link in local):
        target = page.parent / file if file else page
        assert target.exists(), file
        assert not heading or heading in anchors_of(target), f"{file}#{heading}"


def test_a_how_to_is_short() -> None:
    """None has more than 1,200 words, code included."""
    pages = (ROOT / "docs" / "how-to").rglob("*.md")
    assert [page for page in pages if len(page.read_text().split()) > 1200] == []


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.stem)
def test_simulations_still_answer_the_same(answer: Path) -> None:
    """What a simulation prints is the answer beside it, to the last digit.

    A sixth of the rows at most is computed, others in each run: pytest's `--randomly-seed` draws it
    again. With ALL_ROWS=1 in the environment it is all of them.
    """
    seed = [] if "ALL_ROWS" in os.environ else [str(random.getrandbits(32))]
    command = [sys.executable, answer.with_suffix(".py"), *seed]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if not seed:
        assert shown == answer.read_text()
        return
    heading, *rows = shown.splitlines()
    told, *answers = answer.read_text().splitlines()
    assert (heading, bool(rows)) == (told, True)
    rest = iter(answers)  # in their order: what is found is behind what was found before
    changed = next((row for row in rows if row not in rest), None)
    assert changed is None, f"drawn by {seed[0]}"


def test_every_simulation_has_its_answer() -> None:
    """But for the one that measures, those that search, and what they share."""
    scripts = {script.stem for script in (ROOT / "simulations").glob("*.py")}
    others = {"drawn", "fidelity", "grid", "search", "spread"}
    assert scripts - {answer.stem for answer in ANSWERS} == others
