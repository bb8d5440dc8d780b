"""How Sphinx makes the site: `uv run sphinx-build -W docs site`."""

import shutil
import sys
from pathlib import Path

from sphinx.application import Sphinx

sys.path.append(str(Path(__file__).parent / "figures"))

project = "adaptive_batching"
copyright = "The adaptive_batching authors"  # noqa: A001  (Sphinx calls it that)
extensions = [
    "matplotlib.sphinxext.plot_directive",
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_click",
    "sphinx_copybutton",
]
exclude_patterns = ["examples/**"]  # programs with their own README, which pages link to

html_theme = "furo"
html_title = "adaptive_batching"
html_baseurl = ""
copybutton_prompt_text = "$ "

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
suppress_warnings = [
    "ref.option",  # sphinx-click links variables to options that a command has, but does not show
    "myst.xref_missing",  # links to files of the project: tests/test_examples.py follows them
]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
napoleon_use_ivar = True  # `Attributes:` beside slots would be described twice

plot_formats = ["svg"]
plot_html_show_formats = False
plot_html_show_source_link = False
plot_working_directory = "."


def setup(app: Sphinx) -> None:
    """Put the pictures of the README, which is the first page, where its HTML looks for them."""
    images, target = Path(app.srcdir) / "images", Path(app.outdir) / "docs" / "images"
    app.connect("autodoc-process-docstring", _without_alias)
    app.connect("build-finished", lambda *_: shutil.copytree(images, target, dirs_exist_ok=True))


def _without_alias(
    _app: Sphinx, _what: str, _name: str, _of: object, _as: object, lines: list[str]
) -> None:
    """Leave out what Python itself says of the field of a named tuple."""
    if lines and lines[0].startswith("Alias for field number"):
        lines.clear()
