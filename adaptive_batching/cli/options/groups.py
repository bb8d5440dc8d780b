"""Options that several commands share, or that are one thing to the command that has them."""

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import reduce, wraps
from typing import Any

from click import get_current_context

from adaptive_batching.cli.options.rules import Rule

Command = Callable[..., Any]
Option = Callable[[Command], Command]


def add_options(command: Command, options: Sequence[Option]) -> Command:
    """Add options to a command, in the order in which its help shows them."""
    return reduce(lambda decorated, option: option(decorated), reversed(options), command)


def gather_options(
    command: Command,
    options: Sequence[Option],
    name: str,
    kind: type,
    rules: Sequence[Rule] = (),
) -> Command:
    """Add options that the command gets as one object.

    Args:
        command: What gets it.
        options: As many as the kind has fields, with their names.
        name: Of the command's parameter.
        kind: A dataclass.
        rules: What they have to do with one another.
    """
    names = [field.name for field in fields(kind)]

    @wraps(command)
    def gathered(*args: Any, **values: Any) -> Any:
        for check in rules:
            check(get_current_context())
        values[name] = kind(**{each: values.pop(each) for each in names})
        return command(*args, **values)

    return add_options(gathered, options)
