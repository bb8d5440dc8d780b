"""The package stands on what other libraries promise: no name with a leading underscore of theirs.

Such a name may change or go with any release, as four of aiohttp's once did with 3.14.4.
"""

import ast
import importlib.util
import inspect
import pkgutil
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_origin

import adaptive_batching

# Documented for everybody in spite of the underscore: of named tuples, enumerations and `os`.
DOCUMENTED = {"_asdict", "_exit", "_fields", "_ignore_", "_make", "_missing_", "_replace"}

# They may be missing; what a class inherits of them is then unknown.
EXTRAS = {"grpc", "langchain_core", "mosec", "ray", "sentence_transformers", "transformers"}
BY_STRING = {"attrgetter", "delattr", "getattr", "hasattr", "methodcaller", "setattr"}


def test_no_private_name_of_others() -> None:
    """No attribute that is read, set or overridden is a private part of another library."""
    found = {
        module: names
        for module in sources()
        if (names := {*reads(module), *imports(module), *overridden(module)})
    }
    assert not found


@cache
def sources() -> dict[str, list[ast.AST]]:
    """Every module of the package, as all its nodes."""
    names = ["adaptive_batching"]
    names += [
        each.name for each in pkgutil.walk_packages(adaptive_batching.__path__, f"{names[0]}.")
    ]
    specs = map(importlib.util.find_spec, names)
    texts = [Path(spec.origin).read_text() for spec in specs if spec and spec.origin]
    return {name: [*ast.walk(ast.parse(text))] for name, text in zip(names, texts, strict=True)}


def reads(module: str) -> Iterator[str]:
    """Private attributes of anything but `self` that no class of this module defines."""
    nodes = sources()[module]
    ours = {name for node in nodes for name in defined(node)}
    for node in nodes:
        if isinstance(node, ast.Attribute) and not is_own(node.value):
            names = [node.attr]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in BY_STRING:
            names = [text for text in map(constant, node.args) if text.isidentifier()]
        else:
            continue
        yield from (name for name in names if is_private(name) and name not in ours)


def imports(module: str) -> Iterator[str]:
    """Private modules, and private names of modules, outside the package."""
    for node in sources()[module]:
        if isinstance(node, ast.Import | ast.ImportFrom):
            above = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            paths = [(above + alias.name).split(".") for alias in node.names]
            outside = [path for path in paths if path[0] != "adaptive_batching"]
            yield from (".".join(path) for path in outside if any(map(is_private, path)))


def overridden(module: str) -> Iterator[str]:
    """Private names that a class of ours uses and that a base outside the package has, too."""
    for node in sources()[module]:
        if isinstance(node, ast.ClassDef):
            ours, others = lineage(module, node)
            used = {name for each in ours for name in names_of(each)}
            yield from used & {name for base in others for name in names_of_another(base)}


def lineage(module: str, node: ast.ClassDef) -> tuple[list[ast.ClassDef], set[type]]:
    """A class with its bases: those of ours as they are written, others as they are."""
    ours, others = [node], set()
    for base in node.bases:
        kind = evaluated(module, base)
        for ancestor in getattr(get_origin(kind) or kind, "__mro__", ()):
            if ancestor.__module__.partition(".")[0] != "adaptive_batching":
                others.add(ancestor)
            else:
                ours += [
                    each
                    for each in sources()[ancestor.__module__]
                    if isinstance(each, ast.ClassDef) and each.name == ancestor.__name__
                ]
    return ours, others


def evaluated(module: str, base: ast.expr) -> object:
    """What a base class is; nothing if it is defined in a function, and looked at by itself."""
    try:
        return eval(ast.unparse(base), namespace(module))
    except NameError:
        return None


@cache
def namespace(module: str) -> dict[str, Any]:
    """What a module sees, with what its functions import."""
    seen: dict[str, Any] = {}
    lines = [node for node in sources()[module] if isinstance(node, ast.Import | ast.ImportFrom)]
    for line in [*map(ast.unparse, lines), f"from {module} import *"]:
        try:
            exec(line, seen)
        except ModuleNotFoundError as error:
            if str(error.name).partition(".")[0] not in EXTRAS:
                raise
    return {**seen, **(vars(sys.modules[module]) if module in sys.modules else {})}


@cache
def names_of_another(base: type) -> set[str]:
    """What a class of another library has, and what its methods use at `self`."""
    names = {*vars(base), *getattr(base, "__annotations__", {})}
    try:
        source = inspect.cleandoc(f"\n{inspect.getsource(base)}")
    except (OSError, TypeError):  # compiled: all that can be reached is in vars()
        return names
    return names | names_of(ast.parse(source))


def names_of(tree: ast.AST) -> set[str]:
    """The private names of a class: those of its body, and those that its methods use at `self`."""
    names = set()
    for node in ast.walk(tree):
        names.update(defined(node))
        if isinstance(node, ast.Attribute) and is_own(node.value):
            names.add(node.attr)
    return set(filter(is_private, names))


def defined(node: ast.AST) -> Iterator[str]:
    """The names that a node defines: those of a class's body, with slots, or one set at `self`."""
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_own(node.value):
        yield node.attr
    for inner in node.body if isinstance(node, ast.ClassDef) else ():
        if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield inner.name
        elif isinstance(inner, ast.Assign | ast.AnnAssign):
            for each in ast.walk(inner):
                yield each.id if isinstance(each, ast.Name) else constant(each)


def is_own(value: ast.expr) -> bool:
    """Whether an attribute is looked up at `self`, `cls` or `super()`."""
    value = value.func if isinstance(value, ast.Call) else value
    return isinstance(value, ast.Name) and value.id in {"self", "cls", "super"}


def is_private(name: str) -> bool:
    """Whether a name begins with an underscore and is no magic or documented one."""
    magic = name.startswith("__") and name.endswith("__")
    return name.strip("_") != "" and name[0] == "_" and not magic and name not in DOCUMENTED


def constant(node: ast.AST) -> str:
    """The text that a node is, or none."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
