"""Handlers: what makes one callable with a batch.

A handler is a function that takes the list of items, or a class: built once per worker, with its
`init_args` if it has any, warmed up by its `warmup`, then called. Its `preprocess` takes each item
by itself before the call, its `postprocess` each result after it. Functions, `__call__` and
`warmup` may be async; where `__call__` is, so may be the two steps.
"""

import asyncio
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, NoReturn, TypeVar

from adaptive_batching.errors import UsageError
from adaptive_batching.workers.handler.items import with_awaited_steps, with_steps

_Call = Callable[[list[Any]], Any]
_T = TypeVar("_T")
_R = TypeVar("_R")


class ConfiguredHandler(NamedTuple):
    """A handler that is built with arguments, or that does not take a list as it is.

    Attributes:
        handler: A function or a class.
        init_args: Keyword arguments of the class.
        adapt: Takes the function, or an instance of the class, and returns what to call with a
            list; None if it takes a list. It is async where the handler is.
    """

    handler: Any
    init_args: Mapping[str, Any]
    adapt: Callable[[Any], _Call] | None = None


def call_of(handler: Any) -> Any:
    """What of a handler is called with a batch: a function itself, else its `__call__`.

    Returns:
        That of a class takes `self` first; None if a class has none.
    """
    if inspect.isroutine(handler) or isinstance(handler, partial):
        return handler
    if inspect.isclass(handler) and not any("__call__" in vars(base) for base in handler.__mro__):
        return None  # but for that of its metaclass, which builds it
    return getattr(handler, "__call__", None)  # noqa: B004  not whether there is one, but which


def is_async(handler: Any) -> bool:
    """Whether calling the handler, or an instance of it if it is a class, has to be awaited."""
    if isinstance(handler, ConfiguredHandler):
        handler = handler.handler
    return any(map(inspect.iscoroutinefunction, (handler, call_of(handler))))


def yields(call: Any) -> bool:
    """Whether calling a function only makes a generator of its results."""
    return inspect.isgeneratorfunction(call) or inspect.isasyncgenfunction(call)


def name_of(handler: Any) -> str:
    """What a handler is called in messages."""
    if isinstance(handler, ConfiguredHandler):
        handler = handler.handler
    return str(getattr(handler, "__qualname__", type(handler).__qualname__))


def build(handler: Any) -> tuple[_Call, Callable[[], Any]]:
    """Return what to call with each batch, and what to call once before the first."""
    init_args, adapt = {}, None
    if isinstance(handler, ConfiguredHandler):
        handler, init_args, adapt = handler.handler, handler.init_args, handler.adapt
    if not inspect.isclass(handler):
        return adapt(handler) if adapt else handler, _nothing
    instance = handler(**init_args)
    if not callable(instance):
        msg = f"expected {handler.__qualname__} to define __call__(self, items)"
        raise UsageError(msg)
    call = adapt(instance) if adapt else instance
    return _with_own_steps(call, instance), getattr(instance, "warmup", _nothing)


def _with_own_steps(call: _Call, instance: Any) -> _Call:
    name = type(instance).__qualname__
    before = getattr(instance, "preprocess", None)
    after = getattr(instance, "postprocess", None)
    if before is None and after is None:
        return call
    if is_async(call):
        return with_awaited_steps(call, before, after, name)
    for step in (before, after):
        if inspect.iscoroutinefunction(step):
            msg = f"expected {step.__qualname__} to be a plain function, as __call__ is"
            raise UsageError(msg)
    return with_steps(call, before, after, name)


def ready(handler: Any, runner: asyncio.Runner) -> Callable[[list[Any]], Any]:
    """Build a handler and warm it up; returns what to call with each batch, which may be async."""
    batch_call, warm_up = ending_forks(build)(handler)

    async def completed(awaitable: Any) -> Any:
        return await awaitable

    def call(items: list[Any]) -> Any:
        value = batch_call(items)
        if type(value) is list:  # as most do; to find out what else may be awaited takes longer
            return value
        return runner.run(completed(value)) if inspect.isawaitable(value) else value

    warmth = warm_up()
    if inspect.isawaitable(warmth):
        runner.run(completed(warmth))
    return ending_forks(call)


def _nothing() -> None:
    pass


def ending_forks(call: Callable[[_T], _R]) -> Callable[[_T], _R]:
    """Return a call from which only this process comes back.

    A second answer on a worker's socket would be taken for that of the next batch.
    """
    here = os.getpid()

    def run(argument: _T) -> _R:
        try:
            return call(argument)
        finally:
            if os.getpid() != here:
                _end()

    return run


def _end() -> NoReturn:
    error = sys.exception()
    if not isinstance(error, SystemExit):  # the usual way to end in a fork, if not the best
        if error is not None:
            traceback.print_exception(error)
        sys.stderr.write("a process that the handler forked came back from it: end it there\n")
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(0 if isinstance(error, SystemExit) else 1)
