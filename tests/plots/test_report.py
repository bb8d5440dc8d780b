"""The report is one file that needs nothing else, and says what the table says."""

import importlib.util
import re
from html.parser import HTMLParser

import pytest
from click.testing import CliRunner

from adaptive_batching.cli import main

MADE = ("--arrivals", "poisson", "--rate", "2000", "--duration", "0.5", "--max-latency", "25ms")
_VOID = {"meta"}


class Checked(HTMLParser):
    """Every element that is opened is closed, in order."""

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.attributes, self.texts = [], [], [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data.strip())


def run(*arguments):
    return CliRunner().invoke(main, ["simulate", *map(str, arguments)])


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Of two policies at three loads beside the limit."""
    path = tmp_path_factory.mktemp("report") / "out.html"
    loads = ("--load", 0.5, "--load", 1, "--load", 4)
    result = run(*MADE, "--limit", *loads, "--report", path)
    assert result.exit_code == 0, result.output
    return path.read_text()


def test_it_is_one_file_without_references(page):
    """No script, no style sheet, no image, no font, no namespace: nothing with an address."""
    checked = Checked(page)
    assert not {"script", "link", "img", "iframe", "object"} & set(checked.tags)
    references = [value for name, value in checked.attributes if name in {"href", "src"}]
    assert all(value.startswith("#") for value in references)
    assert "//" not in page
    assert not re.search(r"url\((?!#)|@import", page)


def test_every_reference_inside_leads_somewhere(page):
    """Markers and clips that the figures share are all there."""
    names = {value for name, value in Checked(page).attributes if name == "id"}
    inside = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', page)
    assert {one or other for one, other in inside} <= names


def test_it_shows_the_table_and_a_figure_for_each_question(page):
    """The figures take their colours from the page, which has a light and a dark side."""
    checked = Checked(page)
    assert checked.tags.count("svg") == 7
    assert checked.tags.count("tr") == 3
    for text in (
        "cork, 1 worker",
        "greedy, 1 worker",
        "limit",
        "requests per second",
        "of limit",
        "true mean",
        "gap CV",
        ": how unevenly batches leave: 0 at equal distances, 1 at random, more in bunches;",
    ):
        assert text in checked.texts
    assert "var(--ink)" in page
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page


def test_without_loads_there_are_no_curves_over_the_load(tmp_path):
    """Users who wait for answers can't be made denser, but their records are drawn."""
    path = tmp_path / "out.html"
    closed = ("--arrivals", "closed", "--users", 8, "--duration", 0.3)
    assert run(*closed, "--report", path).exit_code == 0
    assert Checked(path.read_text()).tags.count("svg") == 5
    refused = run(*closed, "--report", path, "--load", 2)
    assert "expected arrivals that are known" in refused.output


def test_a_lone_request(tmp_path):
    """Has no gaps and no queue; figures that say nothing say it quietly, and items are whole."""
    trace, path = tmp_path / "lone.csv", tmp_path / "out.html"
    trace.write_text("t_seconds,size\n0,1\n")
    result = run(trace, "--report", path, "--load", 0.5, "--load", 2)
    assert result.exit_code == 0, result.output
    page = path.read_text()
    assert Checked(page).tags.count("svg") == 7
    for figure, anchor in (("Batch sizes", "end"), ("Queue", "end"), ("Duration", "middle")):
        [drawn] = re.findall(rf'aria-label="{figure}.*?</svg>', page, re.DOTALL)
        ticks = re.findall(rf"text-anchor: {anchor}[^>]*>([\d.]+)<", drawn)
        assert ticks
        assert not [tick for tick in ticks if "." in tick]


def test_without_matplotlib_it_says_what_to_install(tmp_path, monkeypatch):
    """Before anything is simulated."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    result = run(*MADE, "--report", tmp_path / "out.html")
    assert result.exit_code == 1
    assert "pip install matplotlib" in result.output


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--load", 2), "expected --report with --load"),
        (("--report", "/nowhere/out.html"), "can't write /nowhere/out.html"),
        (
            ("--report", "out.html", "--load", 0),
            "load: expected a positive number from 1e-09 to 1e+09, got 0",
        ),
    ],
)
def test_mistakes_are_named(arguments, complaint):
    result = run(*MADE, *arguments)
    assert result.exit_code != 0
    assert complaint in result.output
