"""The event loops that benchmarks run on."""

import asyncio
import importlib
from collections.abc import Callable
from typing import cast

LOOPS = ("asyncio", "uvloop")


def loop_factory(name: str) -> Callable[[], asyncio.AbstractEventLoop]:
    """What makes a loop of that name.

    Raises:
        ModuleNotFoundError: uvloop is not installed.
    """
    module = importlib.import_module(name)
    return cast("Callable[[], asyncio.AbstractEventLoop]", module.new_event_loop)


def loop_name() -> str:
    """The name of the loop that runs."""
    return type(asyncio.get_running_loop()).__module__.partition(".")[0]
