"""JSON pointers (RFC 6901), as settings write them."""

import re
from collections.abc import Iterable

from adaptive_batching.errors import SettingError


def parse_pointer(name: str, text: str) -> tuple[str, ...]:
    """Read a JSON pointer whose steps are names: `/inputs`, `/data/rows`, or nothing.

    Args:
        name: Of the setting that says it.
        text: What it says.

    Raises:
        SettingError: It does not begin with a slash, or has a ~ that stands for nothing.
    """
    if not text:
        return ()
    if not text.startswith("/") or re.search("~(?![01])", text):  # RFC 6901, 3
        msg = f"expected a JSON pointer such as /inputs, or nothing, got {text!r}"
        raise SettingError(name, msg)
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in text[1:].split("/"))


def format_pointer(steps: Iterable[str]) -> str:
    """Write the names on the way to a place as a JSON pointer."""
    return "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in steps)
