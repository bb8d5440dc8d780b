"""The policies by name; one algorithm per file."""

from collections.abc import Callable
from importlib import import_module
from inspect import signature
from typing import cast

from adaptive_batching.core.policy import Policy

PolicyLike = str | Policy | Callable[[], Policy]
"""A name such as `cork`, `window:2ms` or `my_module:MyPolicy`, a policy's class or factory, or one
made for this use."""

# Where each is, as in MODULE:CLASS: a program imports those that it names.
_PLAIN = {
    "cork": "cork.cork:Cork",
    "greedy": "greedy:Greedy",
    "aimd": "aimd:AIMD",
    "nexus": "nexus:Nexus",
    "deferred": "deferred:Deferred",
    "bentoml": "bentoml:BentoML",
}
_WITH_ARGUMENT = {
    "window": "window:Window.parse",
    "aimd": "aimd:AIMD.parse",
    "triton": "triton:Triton.parse",
    "bentoml": "bentoml:BentoML.parse",
}
_DROP = "+drop"
_SHED_FIRST = "shed_first:ShedFirst"
KNOWN = (
    "cork",
    "greedy",
    "window:TIMEOUT",
    "aimd[:STEP]",
    "aimd:e2e",
    "triton:SIZES[/DELAY]",
    "nexus",
    "deferred",
    "bentoml[:TICK]",
    f"NAME{_DROP}",
    "MODULE:CLASS",
)


def make_policy(policy: PolicyLike) -> Policy:
    """Make a policy from its name, its class, or itself.

    Raises:
        ValueError: The name or its argument is unknown; the message lists the known ones.
        TypeError: It has no `decide` and `observe`, or its class needs arguments.
    """
    if isinstance(policy, str):
        return _by_name(policy)
    if isinstance(policy, type) or not isinstance(policy, Policy):
        policy = _called(policy)
    if not isinstance(policy, Policy):
        lacks = " and ".join(name for name in ("decide", "observe") if not hasattr(policy, name))
        msg = f"policy: expected an object with decide and observe, got {policy!r} without {lacks}"
        raise TypeError(msg)
    return policy


def _called(factory: Callable[[], Policy]) -> Policy:
    if not callable(factory):
        msg = f"policy: expected a name, or an object with decide and observe, got {factory!r}"
        raise TypeError(msg)
    try:
        signature(factory).bind()
    except ValueError:
        pass  # it is written in C and doesn't say what it takes
    except TypeError as error:
        name = getattr(factory, "__name__", repr(factory))
        msg = (
            f"policy: expected one without arguments, such as lambda: {name}(...); {name}: {error}"
        )
        raise TypeError(msg) from None
    return factory()


def _by_name(text: str) -> Policy:
    name = text.removesuffix(_DROP)
    try:
        policy = _make(name)
        return policy if name == text else _ours(_SHED_FIRST)(policy)
    except _Unknown as unknown:
        hint = f"{unknown}{_similar(name)}"
        msg = f"policy: expected one of {', '.join(KNOWN)}, got {text!r}{hint}"
        raise ValueError(msg) from None
    except (TypeError, ValueError) as error:
        msg = f"policy {text!r}: {error}"
        raise ValueError(msg) from error


def _make(text: str) -> Policy:
    name, colon, argument = text.partition(":")
    if not colon and name in _PLAIN:
        return _ours(_PLAIN[name])()
    if colon and name in _WITH_ARGUMENT:
        return _ours(_WITH_ARGUMENT[name])(argument)
    if colon and _dotted(name) and _dotted(argument):
        return make_policy(_imported(name, argument))
    raise _Unknown


def _ours(place: str) -> Callable[..., Policy]:
    module_name, _, path = place.partition(":")
    return _imported(f"{__name__}.{module_name}", path)


def _similar(text: str) -> str:
    """What may have been meant, for the end of the complaint."""
    from difflib import get_close_matches  # noqa: PLC0415  where a name is wrong, and only there

    word = text.partition(":")[0].lower()
    names = dict.fromkeys([*_PLAIN, *_WITH_ARGUMENT])
    close = get_close_matches(word, names, n=1) or [name for name in names if word[:4] == name[:4]]
    known = [form for form in KNOWN if close and form.startswith(close[0])]
    return f"; did you mean {' or '.join(known)}?" if known else ""


class _Unknown(ValueError):
    """There is no such policy."""


def _dotted(name: str) -> bool:
    return all(part.isidentifier() for part in name.split("."))


def _imported(module_name: str, path: str) -> Callable[..., Policy]:
    """What makes a policy; what its module raises while it is imported goes through."""
    found = _find_module(module_name)
    for name in path.split("."):
        found = getattr(found, name, None)
    if found is None:
        raise _Unknown(f" (module {module_name!r} has no {path})")
    if not callable(found):
        raise TypeError(f"expected a class or a function that makes a policy, got {found!r}")
    return cast("Callable[..., Policy]", found)


def _find_module(name: str) -> object:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # it is there, and what it imports isn't
        raise _Unknown(f" (no module named {error.name!r})") from None
