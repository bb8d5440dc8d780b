"""Several handlers in one worker: every item says which of them it is for, and so does a batch.

They are built one after another, in the worker's process or thread, and run one at a time.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from adaptive_batching.workers.handler.handler import build, is_async, name_of
from adaptive_batching.workers.handler.warm_up import Durations, Run, WarmUp

Addressed = tuple[str, Any]
"""The name of a handler, and an item for it; all of a batch are for the same."""

_Call = Callable[[list[Any]], Any]


@dataclass(frozen=True, slots=True)
class NamedHandler:
    """One handler among several.

    Attributes:
        name: What items call it.
        handler: A function or a class; see `workers.handler.handler`.
        wrap: Takes the handler, ready to be called with items, and returns what to call instead.
        warm_up: What it runs before the first batch.
    """

    name: str
    handler: Any
    wrap: Callable[[_Call], _Call]
    warm_up: WarmUp


class WarmUps(WarmUp):
    """Each handler's own examples, one handler after the other.

    What they took is not told: it would be learned as if it were one handler's.

    Args:
        members: The handlers.
    """

    def __init__(self, members: Sequence[NamedHandler]) -> None:
        super().__init__((), 1)
        self._members = tuple(members)

    async def run(self, name: str, run: Run) -> Durations:
        """Run each size of each handler once; see `WarmUp.run`."""
        for each in self._members:
            await each.warm_up.run(f"{name} at {each.name}", _addressed(run, each.name))
        return []


def multi_handler(handlers: Mapping[str, tuple[Any, Callable[[_Call], _Call]]]) -> type:
    """One handler that is several: a class whose `__call__` takes `Addressed` items.

    It is async if all of them are; in a worker process it may then be so for some.

    Args:
        handlers: By name, each handler and what it is wrapped in.
    """
    kinds = [is_async(handler) for handler, _ in handlers.values()]
    base = _AwaitedMultiHandler if all(kinds) else _MultiHandler
    names = [name_of(handler) for handler, _ in handlers.values()]
    return type("+".join(names), (base,), {"handlers": handlers})


class _MultiHandler:
    handlers: Mapping[str, tuple[Any, Callable[[_Call], _Call]]]

    def __init__(self) -> None:
        self._calls: dict[str, _Call] = {}
        self._warm_ups: list[Callable[[], Any]] = []
        for name, (handler, wrap) in self.handlers.items():
            call, warm_up = build(handler)
            self._calls[name] = wrap(call)
            self._warm_ups.append(warm_up)

    def warmup(self) -> Awaitable[Any] | None:
        warmth = [warm_up() for warm_up in self._warm_ups]
        awaitable = [each for each in warmth if inspect.isawaitable(each)]
        return _all(awaitable) if awaitable else None

    def __call__(self, addressed: list[Addressed]) -> Any:
        call = self._calls[addressed[0][0]]
        return call([item for _, item in addressed])


class _AwaitedMultiHandler(_MultiHandler):
    async def __call__(self, addressed: list[Addressed]) -> Any:
        return await super().__call__(addressed)


async def _all(awaitables: Sequence[Awaitable[Any]]) -> None:
    for each in awaitables:
        await each


def _addressed(run: Run, name: str) -> Run:
    return lambda items: run([(name, item) for item in items])
