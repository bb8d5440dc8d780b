"""What is wrong with a client's item, in words for the client."""

import re

import msgspec

from adaptive_batching.errors import InvalidItem

_PATH = re.compile(r" - at `(?:key in )?(\$[^`]*)`")
_LONGEST = 300  # characters: a message may quote what the client sent


def of_msgspec(error: msgspec.ValidationError) -> InvalidItem:
    """A message of msgspec says what and where: "Expected `float`, got `str` - at `$.pixels[3]`".

    A field that is checked by a hook has two paths, its own and, before that, the one within.
    """
    text = str(error)
    path = "$" + "".join(each[1:] for each in reversed(_PATH.findall(text)))
    fault = _PATH.sub("", text).replace("`", "")
    return InvalidItem(path[:_LONGEST], (fault[:1].lower() + fault[1:])[:_LONGEST])


def in_field(name: str, fault: InvalidItem) -> InvalidItem:
    """That of a value which a dict or an object has under a name."""
    return InvalidItem(f"$.{name}{fault.path[1:]}"[:_LONGEST], fault.fault)


def of_location(location: tuple[int | str, ...], message: str) -> InvalidItem:
    """As pydantic says it: ("pixels", 3)."""
    steps = [f"[{each}]" if isinstance(each, int) else f".{each}" for each in location]
    fault = message[:1].lower() + message[1:]
    return InvalidItem(f"${''.join(steps)}"[:_LONGEST], fault[:_LONGEST])
