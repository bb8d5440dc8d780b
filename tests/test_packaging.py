"""What the package says of itself before and after it is installed."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_messages_advise_the_packages_of_an_extra():
    """The index's own `adaptive-batching` is another's until this project is published there."""
    sources = [*(ROOT / "adaptive_batching").rglob("*.py"), *(ROOT / "docs").rglob("*.md")]
    texts = {path: path.read_text() for path in [*sources, ROOT / "README.md"]}
    assert not [path for path, text in texts.items() if "adaptive-batching[" in text]
    extras = {
        re.split("[<>=]", each)[0]
        for packages in PROJECT["optional-dependencies"].values()
        for each in packages
    }
    advised = {
        name
        for path, text in texts.items()
        if path.suffix == ".py"
        for name in re.findall(r"pip install '?([\w-]+)", text)
    }
    assert advised == extras


def test_pages_of_the_project_are_named():
    """Each of them below the repository, where its path is one of this tree."""
    urls = PROJECT["urls"]
    assert set(urls) == {"Repository", "Documentation", "Issues", "Changelog"}
    for name in ("Documentation", "Changelog"):
        path = re.sub("^/(tree|blob)/main/", "", urls[name].removeprefix(urls["Repository"]))
        assert (ROOT / path).exists()
