"""Options of commands, made from the declarations of their settings."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce, wraps
from pathlib import Path
from typing import Any

import click
import msgspec
from click import get_current_context
from msgspec import inspect

from adaptive_batching.cli.options.parameters import TRUTH, Parsed, WholeNumber
from adaptive_batching.cli.options.rules import Rule
from adaptive_batching.cli.options.sections import SectionedOption
from adaptive_batching.marshal.config.quantities import bare, quantity, written

Command = Callable[..., Any]
Option = Callable[[Command], Command]


def add_options(command: Command, options: Sequence[Option]) -> Command:
    """Add options to a command, in the order in which its help shows them."""
    return reduce(lambda decorated, option: option(decorated), reversed(options), command)


def gather_options(
    command: Command, name: str, kind: type, section: str, rules: Sequence[Rule] = ()
) -> Command:
    """Add an option for each field of a kind of settings, which the command gets as one object.

    Args:
        command: What gets it.
        name: Of the command's parameter.
        kind: A struct; the metadata of its fields is made by `means`.
        section: Of the help, where a field names no other.
        rules: What they have to do with one another.
    """
    options = options_of(kind, section)

    @wraps(command)
    def gathered(*args: Any, **values: Any) -> Any:
        for check in rules:
            check(get_current_context())
        values[name] = made(kind, {each: values.pop(each) for each in options})
        return command(*args, **values)

    return add_options(gathered, [*options.values()])


def made(kind: type, values: dict[str, Any]) -> Any:
    """Return the settings for the values of their options; None takes the declared default."""
    return kind(**{name: value for name, value in values.items() if value is not None})


def options_of(kind: type, section: str) -> dict[str, Option]:
    """Return the option of each field of a kind of settings, by field."""
    return dict(_options(kind, section))


def _options(kind: type, section: str) -> Iterator[tuple[str, Option]]:
    described: Any = inspect.type_info(kind)
    for field in described.fields:
        shown = field.type.extra
        name = shown.get("option", f"--{field.name.replace('_', '-')}")
        if name is not None:
            section = shown.get("section", section)  # and of the fields after it
            yield field.name, _option(name, field, bare(field.type), section)


def _option(name: str, field: Any, kind: Any, section: str) -> Option:
    shown = field.type.extra
    default, told = None, shown.get("default", False)
    if not told and field.default not in (msgspec.NODEFAULT, None, "", (), False):
        default, told = field.default, True
        if isinstance(kind, inspect.CustomType):
            default = written(default)
    several = isinstance(kind, inspect.VarTupleType)
    return click.option(
        name,
        field.name,
        cls=SectionedOption,
        section=section,
        type=_type(kind, shown.get("choices")),
        default=default,
        show_default=told,
        is_flag=isinstance(kind, inspect.BoolType),
        multiple=several,
        # Click would name it after the field, which stands for several.
        envvar=f"ADAPTIVE_BATCHING_{name[2:].replace('-', '_')}".upper() if several else None,
        metavar=shown.get("metavar"),
        help=shown["meaning"] + (" Repeat." if several else ""),
    )


def _type(kind: Any, choices: Sequence[str] | None) -> Any:
    match kind:
        case inspect.IntType():
            return WholeNumber(kind.ge, kind.le)
        case inspect.BoolType():
            return TRUTH
        case inspect.LiteralType():
            return click.Choice(kind.values)
        case inspect.CustomType() if kind.cls is Path:
            return click.Path(dir_okay=False, path_type=Path)
        case inspect.CustomType():
            return Parsed(kind.cls.__name__.lower(), partial(quantity, kind.cls))
        case _:
            return None if choices is None else click.Choice(choices)
