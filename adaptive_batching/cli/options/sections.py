"""Help texts whose options stand in sections, in the order in which the command declares them."""

from collections.abc import Callable
from functools import partial
from typing import Any

import click
from click.types import OptionHelpExtra

MOST_NEEDED = "Most needed"
"""The section of the options without which few start a command; it comes first."""

KEYS_AND_TENANTS = "Keys and tenants"
"""The section of options about which requests share a batch, and whose they are."""

COSTS = "Costs"
"""The section of options about items that don't cost the same."""

OUTPUT = "Output"
"""The section of options about what is printed."""

_Command = Callable[..., Any]
_ENDLESS = 10**6  # a bound above it only guards against slips, and tells a reader nothing


class SectionedOption(click.Option):
    """An option that belongs to a section of its command's help."""

    def __init__(self, *names: Any, section: str = "Options", **attributes: Any) -> None:
        super().__init__(*names, **attributes)
        self.section = section

    def get_help_extra(self, ctx: click.Context) -> OptionHelpExtra:
        """Return what stands in brackets behind the help; a bound far away is left out."""
        extra = super().get_help_extra(ctx)
        if isinstance(self.type, click.IntRange) and (self.type.max or _ENDLESS) >= _ENDLESS:
            extra.pop("range", None)
        return extra


class SectionedCommand(click.Command):
    """A command that shows its options by section."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each section with its options."""
        sections: dict[str, list[tuple[str, str]]] = {MOST_NEEDED: []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and not isinstance(parameter, click.Argument):
                name = getattr(parameter, "section", "Options")
                sections.setdefault(name, []).append(record)
        for name, records in sections.items():
            if records:
                with formatter.section(name):
                    formatter.write_dl(records)


def options_in(section: str) -> Callable[..., Callable[[_Command], _Command]]:
    """Return `click.option` for the options of one section."""
    return partial(click.option, cls=SectionedOption, section=section)
