"""The command line, one command a file; each is imported only when it is called."""

import importlib
from difflib import get_close_matches
from typing import Any

import click

from adaptive_batching.interrupts import interrupt_held, interruptible

_COMMANDS = {
    "bench": "Measure the cost of batching beside bare baselines.",
    "check-config": "Say whether a sidecar would start with a file of routes.",
    "compare": "Fail if a policy is worse than another on some traffic.",
    "demo": "Batch single requests for a real model over HTTP and compare every answer.",
    "fit": "Learn from a recording how long a batch of each size takes.",
    "replay": "Send a trace to a running service and show the simulation beside it.",
    "recommend": "Find the fewest workers that meet an SLO under some traffic.",
    "serve": "Run a service: MODULE:SERVICE.",
    "sidecar": "Batch requests before a model server, without touching it.",
    "top": "Show what a running service or sidecar does, second by second.",
    "simulate": "Replay traffic through the scheduler in virtual time.",
}


class _Lazy(click.Group):
    """A group whose commands live in modules of the same name."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Read the group's own options; `click` would say "Aborted!" of Ctrl-C."""
        with interruptible():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; Ctrl-C may come while it is still imported, which takes a second."""
        with interruptible():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        # Some modules swallow it, and Python ends by the signal, whatever is made of it, if it came
        # while a module ran a string as code, as dataclasses do: it waits for the import's end.
        with interrupt_held():
            module = importlib.import_module(f"{__name__}.commands.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the first argument names, or suggest the nearest one."""
        near = get_close_matches(args[0], _COMMANDS, n=1)
        if near and args[0] not in _COMMANDS and not ctx.resilient_parsing:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {near[0]!r}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(_COMMANDS.items()))


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="adaptive-batching")
def main() -> None:
    """Turn single requests into batches for models."""
