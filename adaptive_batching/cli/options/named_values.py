"""Options that say something of one among several, by its name: `--record /predict=out.csv`."""

from collections.abc import Collection, Iterable

import click


def named_values(
    option: str, what: str, given: Iterable[str], names: Collection[str]
) -> dict[str, str]:
    """Read `[NAME=]VALUE` of each use of an option; the name may be left out if there is one.

    Args:
        option: What it is called.
        what: What its value is: `FILE`.
        given: What was said.
        names: Of which something may be said.

    Raises:
        BadParameter: It is said of an unknown name, of none where there are several, or twice. What
            is before the first `=` is taken for a name unless it is a path with a directory.
    """
    values: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if name not in names or not equals:
            if not names:
                raise click.BadParameter(f"{option}: expected none for pipelines, got {text!r}")
            if len(names) != 1:
                one_of = " or ".join(f"{name}={what}" for name in names)
                raise click.BadParameter(f"{option}: expected {one_of}, got {text!r}")
            [only] = names
            if equals and "/" not in name[1:]:
                msg = f"{option}: expected {only}={what}, got {text!r}, and there is no {name!r}"
                raise click.BadParameter(msg)
            name, value = only, text
        if not value:
            raise click.BadParameter(f"{option}: expected a {what.lower()}, got {text!r}")
        if name in values:
            raise click.BadParameter(f"{option}: expected one {what.lower()} for {name}, got two")
        values[name] = value
    return values
