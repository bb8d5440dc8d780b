"""Lets public functions say which of their keywords was meant by one that they don't have."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

T = TypeVar("T", bound=Callable[..., Any])


def names_keywords(function: T) -> T:
    """Decorate a function, or a class by its constructor: a wrong keyword gets a suggestion.

    The decorated function raises `TypeError` for it, as Python does, and says which one is nearest,
    or which there are.
    """
    if isinstance(function, type):
        checked = _naming(vars(function)["__init__"], function.__qualname__)
        setattr(function, "__init__", checked)  # noqa: B010  mypy lets no method be assigned
        return function
    return _naming(function, function.__qualname__)  # type: ignore[return-value]


def _naming(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    known = {each: None for each in names if each != "self"}

    @wraps(function)
    def called(*args: Any, **keywords: Any) -> Any:
        for keyword in keywords:
            if keyword not in known:
                raise TypeError(_complaint(name, keyword, list(known)))
        return function(*args, **keywords)

    return called


def _complaint(name: str, keyword: str, known: list[str]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415  where a name is wrong, and only there

    near = get_close_matches(keyword, known, n=1, cutoff=0.75)
    cure = f"did you mean {near[0]}?" if near else f"expected one of {', '.join(known)}"
    return f"{name}() got an unexpected keyword argument {keyword!r}: {cure}"
