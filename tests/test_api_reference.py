"""The library's reference page names all that is public."""

import re
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import FunctionType

import pytest

import adaptive_batching
from adaptive_batching import contrib, errors

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "api.md"
DIRECTIVE = re.compile(r"^\.\. auto(?:class|function):: (\S+)\n((?:   :.*\n)*)", re.MULTILINE)
SHARED = {"error_answers", "lifetimes"}  # by modules of contrib, for no program to import


def full(name: str) -> str:
    """A name of the page with its module."""
    package = adaptive_batching.__name__
    return name if name.startswith(f"{package}.") else f"{package}.{name}"


ENTRIES = {full(name): options for name, options in DIRECTIVE.findall(PAGE.read_text())}


def documented(entry: str) -> object:
    """What an entry documents."""
    module, _, name = entry.rpartition(".")
    return getattr(import_module(module), name)


CLASSES = [entry for entry in ENTRIES if isinstance(documented(entry), type)]


def test_every_public_name_has_an_entry() -> None:
    """All of `__all__` is there; errors have a page of their own, made from their module."""
    names = {name for name in adaptive_batching.__all__ if not hasattr(errors, name)}
    assert {full(name) for name in names} - set(ENTRIES) == set()


@pytest.mark.parametrize(
    "module", [each.name for each in iter_modules(contrib.__path__) if each.name not in SHARED]
)
def test_everything_of_contrib_has_an_entry(module: str) -> None:
    """Its public classes and functions, whichever module of contrib defines them."""
    values = vars(import_module(f"{contrib.__name__}.{module}")).items()
    public = {
        f"{value.__module__}.{value.__name__}"
        for name, value in values
        if isinstance(value, type | FunctionType) and not name.startswith("_")
        if value.__module__.startswith(f"{contrib.__name__}.")
    }
    helpers = {entry for entry in public if entry.split(".")[2] in SHARED}
    assert public - helpers - set(ENTRIES) == set()
    assert public - helpers


@pytest.mark.parametrize("entry", CLASSES)
def test_a_class_shows_its_methods(entry: str) -> None:
    """Each public one is shown or excluded by name, and so are calls and subscripts."""
    options = dict(re.findall(r":([\w-]+): ?(.*)", ENTRIES[entry]))
    named = re.split(r",\s*", ", ".join(options.values()))
    shows_all = options.get("members") == ""
    own = {
        name: value
        for kind in documented(entry).__mro__
        if kind.__module__.startswith("adaptive_batching")
        for name, value in vars(kind).items()
        if isinstance(value, FunctionType | property | classmethod | staticmethod)
    }
    public = {name for name in own if not (name.startswith("_") or shows_all)}
    special = {
        name for name, value in own.items() if name in {"__call__", "__getitem__"} and value.__doc__
    }
    assert (public | special) - set(named) == set()
    assert all(value.__doc__ for name, value in own.items() if not name.startswith("_"))
