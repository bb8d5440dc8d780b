"""How code and pages are written: a sentence names its subject, and only people are "who"."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "adaptive_batching").rglob("*.py"))
HISTORY = ROOT / "docs" / "changelog.md"  # its older lines have the words of their time
PAGES = {ROOT / "README.md", *(ROOT / "docs").rglob("*.md")} - {HISTORY}

BEGINNINGS = re.compile(r"(Who|Whose|Whoever|Nobody|Somebody|Likewise|The same)\b")
NAMELESS = re.compile(r"\b(nobody|somebody|everybody|whoever|whom|he|his|him)\b", re.IGNORECASE)
PEOPLE = r"(anyone|callers?|clients?|operators?|others|people|person|users?),?"
WHO = re.compile(r"\bwho\b", re.IGNORECASE)
PERSON = re.compile(rf"\b{PEOPLE}\s+(\w+\s+){{0,2}}who\b", re.IGNORECASE)


def sentences(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Docstrings, messages and help texts, each with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


def passages(page: str) -> Iterator[str]:
    """Paragraphs, list items and cells of tables, without code, pictures and addresses of links."""
    prose = re.sub(r"^```.*?^```$|`[^`]*`|\]\([^)]*\)", "", page, flags=re.MULTILINE | re.DOTALL)
    yield from re.split(r"\n\s*\n|\n\s*[*-] |\n\s*\d+\. |\|", prose)


def faults(text: str) -> Iterator[str]:
    if BEGINNINGS.match(text.strip()):
        yield "begins without the thing's name"
    if found := NAMELESS.search(text):
        yield f"says {found[0]}"
    if len(WHO.findall(text)) > len(PERSON.findall(text)):
        yield "says who of a thing"


def test_sentences_name_their_subject():
    """No docstring, message or help text of the package speaks of nobody, or of a thing as who."""
    found = [
        f"{path.relative_to(ROOT)}:{line}: {fault}: {text.strip()[:60]!r}"
        for path in FILES
        for line, text in sentences(ast.parse(path.read_text()))
        for fault in faults(text)
    ]
    assert not found, "\n".join(found)


def test_pages_name_their_subject():
    """No page speaks of nobody, or of a thing as who."""
    found = [
        f"{page.relative_to(ROOT)}: {fault}: {text.strip()[:60]!r}"
        for page in sorted(PAGES)
        for text in passages(page.read_text())
        for fault in faults(text)
    ]
    assert not found, "\n".join(found)


def test_the_readme_is_short():
    """Its first screens have to be read."""
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120


@pytest.mark.parametrize(
    "text",
    [
        "Likewise.",
        "The same of a list.",
        "A batch who waits.",
        "None if nobody asks.",
        "Who sends.",
    ],
)
def test_what_is_found(text):
    assert list(faults(text))


@pytest.mark.parametrize("text", ["Users who send again.", "What clients do who are refused."])
def test_what_is_not(text):
    assert not list(faults(text))
