"""What all commands have in common that listen for requests until they are told to stop."""

import asyncio
import importlib.util
from collections.abc import Callable, Coroutine
from functools import reduce
from typing import Any

import click

from adaptive_batching.cli.parameters import DURATION
from adaptive_batching.errors import BatchingError
from adaptive_batching.marshal.listening import ListenError

_OPTIONS = (
    click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on."),
    click.option(
        "--port",
        default=8000,
        show_default=True,
        type=click.IntRange(0, 65535),
        help="Port; 0 takes a free one.",
    ),
    click.option(
        "--drain-delay",
        default="200ms",
        show_default=True,
        type=DURATION,
        help="How long to go on accepting after the first signal, while /readyz says no.",
    ),
    click.option(
        "--drain-timeout",
        default="30s",
        show_default=True,
        type=DURATION,
        help="How long the last requests may take.",
    ),
    click.option("--uvloop/--no-uvloop", default=None, help="Default: uvloop if it is installed."),
)


def listening_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command."""
    return reduce(lambda decorated, option: option(decorated), reversed(_OPTIONS), command)


def serve_until_told(
    serving: Coroutine[Any, Any, None], loop: Callable[[], asyncio.AbstractEventLoop] | None
) -> None:
    """Run it on a loop; what goes wrong becomes a sentence and an exit status."""
    try:
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(serving)
    except ListenError as error:
        if error.unresolved:
            raise click.BadParameter(str(error), param_hint="--host") from error
        raise click.ClickException(str(error)) from error
    except BatchingError as error:
        raise click.ClickException(str(error)) from error


def loop_factory(*, wanted: bool | None) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What makes the event loop: uvloop if it is installed and not unwanted; None for asyncio's."""
    if wanted is False or (wanted is None and importlib.util.find_spec("uvloop") is None):
        return None
    try:
        import uvloop  # noqa: PLC0415  an extra
    except ModuleNotFoundError:
        hint = "uvloop is not installed: pip install adaptive-batching[uvloop]"
        raise click.UsageError(hint) from None
    return uvloop.new_event_loop
