"""The policies by name; one algorithm per file."""

from collections.abc import Callable

from adaptive_batching.core.policies.aimd import AIMD
from adaptive_batching.core.policies.cork import Cork
from adaptive_batching.core.policies.greedy import Greedy
from adaptive_batching.core.policies.window import Window
from adaptive_batching.core.policy import Policy
from adaptive_batching.units import parse_duration

PolicyLike = str | Policy | Callable[[], Policy]
"""A name such as `cork` or `window:2ms`, a policy's class or factory, or one made for this use."""

_PLAIN: dict[str, Callable[[], Policy]] = {"cork": Cork, "greedy": Greedy, "aimd": AIMD}
_WITH_ARGUMENT: dict[str, Callable[[str], Policy]] = {
    "window": lambda text: Window(parse_duration(text)),
    "aimd": lambda text: AIMD(float(text)),
}
KNOWN = ("cork", "greedy", "window:TIMEOUT", "aimd[:STEP]")


def make_policy(policy: PolicyLike) -> Policy:
    """Make a policy from its name, its class, or itself.

    Raises:
        ValueError: The name or its argument is unknown; the message lists the known ones.
        TypeError: It has no `decide` and `observe`.
    """
    if isinstance(policy, str):
        return _by_name(policy)
    if isinstance(policy, type) or not isinstance(policy, Policy):
        policy = policy()
    if not isinstance(policy, Policy):
        msg = f"policy: expected an object with decide and observe, got {policy!r}"
        raise TypeError(msg)
    return policy


def _by_name(text: str) -> Policy:
    name, colon, argument = text.partition(":")
    if not colon and name in _PLAIN:
        return _PLAIN[name]()
    if colon and name in _WITH_ARGUMENT:
        try:
            return _WITH_ARGUMENT[name](argument)
        except ValueError as error:
            msg = f"policy {text!r}: {error}"
            raise ValueError(msg) from error
    msg = f"policy: expected one of {', '.join(KNOWN)}, got {text!r}"
    raise ValueError(msg)
