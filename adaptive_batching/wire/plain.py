"""Values of NumPy, and of whatever does likewise, as Python's own."""

from typing import Any


def plain(value: Any) -> Any:
    """Return the numbers and lists of an array or scalar; an `enc_hook` of msgspec.

    Raises:
        TypeError: It is nothing of the kind.
    """
    if hasattr(value, "tolist"):
        own = value.tolist()
        if type(own) is not type(value):
            return own
    raise TypeError(f"no form for {type(value).__name__}")
