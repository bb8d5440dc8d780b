"""A real browser shows the report as it is meant: complete, quiet, and on any width."""

import re

import pytest
from click.testing import CliRunner

from adaptive_batching.cli import main
from tests.plots.chromium import CHROMIUM, browser

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")

CLIPPED = """[...document.querySelectorAll("h1, p, figure, svg, svg text")].filter(each => {
    const box = each.getBoundingClientRect();
    return box.right > innerWidth + 1 || box.left < -1;
}).map(each => each.textContent.trim().slice(0, 40))"""

SCROLLED = """[...document.querySelectorAll(".wide")].some(
    each => each.scrollWidth > each.clientWidth)"""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Eight runs with long names: what leaves the least room."""
    path = tmp_path_factory.mktemp("report") / "out.html"
    conditions = ("--arrivals", "poisson", "--rate", "3000", "--duration", "0.3", "--jitter", "0.1")
    policies = ("cork", "greedy", "window:2ms", "aimd:e2e")
    options = [word for policy in policies for word in ("--policy", policy)]
    options += ["--workers", "1", "--workers", "2", "--load", "0.5", "--load", "2"]
    options += ["--crashes", "1%:10ms"]
    result = CliRunner().invoke(main, ["simulate", *conditions, *options, "--report", str(path)])
    assert result.exit_code == 0, result.output
    return path


async def test_on_a_phone_on_a_desk_and_on_paper(report, tmp_path):
    """Nothing is clipped or needs scrolling sideways, asked for elsewhere or complained of."""
    async with browser(tmp_path / "profile") as tab:
        for width in (360, 1000, 1200):
            await tab.open(report, width=width)
            assert await tab.value("document.documentElement.scrollWidth") <= width
            assert await tab.value(CLIPPED) == []
            assert width == 360 or not await tab.value(SCROLLED)  # a phone's table has to
            assert await tab.value("document.querySelectorAll('figure svg').length") == 7
            requests = tab.named("Network.requestWillBeSent")
            assert [each["request"]["url"] for each in requests] == [report.as_uri()]
            assert tab.named("Log.entryAdded", "Runtime.exceptionThrown") == []
        pages = re.findall(rb"/Type\s*/Page\b", await tab.printed())
        assert len(pages) == 2
