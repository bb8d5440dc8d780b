"""`adaptive-batching top`: what a running service or sidecar does, in the terminal."""

import asyncio
import os
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import click
from rich.console import Console
from rich.live import Live
from yarl import URL

from adaptive_batching.cli.endings import writing
from adaptive_batching.top import LastMinute, NotWatchable, follow, snapshot
from adaptive_batching.top.screen import drawn

_USUAL = "http://127.0.0.1:9000"
_AGAIN = 1.0  # seconds after which a program that hung up is asked again


@click.command("top")
@click.argument("url", metavar="[URL]", default=_USUAL)
@click.option("--once", is_flag=True, help="Print what is known now, and end.")
@click.option("--endpoint", "only", multiple=True, help="Show this one alone; repeat for several.")
def command(url: str, only: tuple[str, ...], *, once: bool) -> None:
    """Show what the service or sidecar with the admin port at URL does, second by second.

    URL is http://127.0.0.1:9000 by default; a number is a port of this machine. The key q ends it.
    If standard output is no terminal, the present figures are printed once.
    """
    address = _address(url)
    console = Console(highlight=False, markup=False, emoji=False)
    try:
        if once or not console.is_terminal:
            asyncio.run(_print(address, only, console))
        else:
            asyncio.run(_watch(address, only, console))
    except NotWatchable as error:
        raise click.ClickException(str(error)) from error


def _address(text: str) -> URL:
    try:
        url = URL(f"http://127.0.0.1:{text}" if text.isdecimal() else text)
    except ValueError:
        url = URL()
    if url.scheme not in {"http", "https"} or not url.host:
        example = "the URL of an admin port, such as http://127.0.0.1:9000"
        raise click.BadParameter(f"expected {example}, got {text!r}", param_hint="URL")
    return url


async def _print(url: URL, only: tuple[str, ...], console: Console) -> None:
    state = LastMinute()
    state.tell(await snapshot(url), whole=True)
    _check(only, state)
    with writing():
        console.print(drawn(state, str(url), only))


async def _watch(url: URL, only: tuple[str, ...], console: Console) -> None:
    """Follow it until q is pressed; once it has answered, it may go away and come back."""
    state = LastMinute()
    state.tell(await snapshot(url), whole=True)
    _check(only, state)
    title = f"{url} (q ends)"
    with Live(drawn(state, title, only), console=console, screen=True, auto_refresh=False) as live:

        async def show() -> None:
            while True:
                with suppress(NotWatchable):
                    async for whole, view in follow(url):
                        state.tell(view, whole=whole)
                        live.update(drawn(state, title, only), refresh=True)
                live.update(drawn(state, f"{url}: no data; trying again", only), refresh=True)
                await asyncio.sleep(_AGAIN)

        showing = asyncio.ensure_future(show())
        with _listening(showing.cancel):
            await asyncio.wait([showing])
    if not showing.cancelled():
        showing.result()


@contextmanager
def _listening(at_q: Callable[[], object]) -> Iterator[None]:
    """Have a function called when q is pressed; keys arrive at once meanwhile and are not shown."""
    if not sys.stdin.isatty():
        yield
        return
    terminal, loop = sys.stdin.fileno(), asyncio.get_running_loop()

    def read() -> None:
        pressed = os.read(terminal, 64)
        if not pressed or b"q" in pressed.lower():
            loop.remove_reader(terminal)
            at_q()

    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)
    loop.add_reader(terminal, read)
    try:
        yield
    finally:
        loop.remove_reader(terminal)
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _check(only: tuple[str, ...], state: LastMinute) -> None:
    for name in only:
        if name not in state.endpoints:
            known = ", ".join(state.endpoints) or "none"
            raise click.BadParameter(
                f"expected one of {known}, got {name}", param_hint="--endpoint"
            )
