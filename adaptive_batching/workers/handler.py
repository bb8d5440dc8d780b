"""Handlers: how a worker process finds one, and what makes one callable.

A handler is a function that takes the list of items, or a class: built once per worker, with its
`init_args` if it has any, warmed up by its `warmup`, then called. Its `preprocess` takes each item
by itself before the call, its `postprocess` each result after it. Functions, `__call__` and
`warmup` may be async; where `__call__` is, so may be the two steps.
"""

import asyncio
import importlib
import inspect
import os
import runpy
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn, Self, TypeVar

from adaptive_batching.errors import HandlerNotFound, UsageError
from adaptive_batching.workers.items import with_awaited_steps, with_steps
from adaptive_batching.workers.pickled import Pickled

_MAIN = "__main__"
_MAIN_IN_WORKER = (
    "__mp_main__"  # multiprocessing's name for it: a pickle made there can be read here
)
_Call = Callable[[list[Any]], Any]
_T = TypeVar("_T")
_R = TypeVar("_R")


@dataclass(frozen=True, slots=True)
class MainScript:
    """The program that was started, so that a worker can import it without running it.

    Attributes:
        path: Its file; unused if there is a `module`.
        module: Its name, if it was started with `python -m`.
        argv: Its arguments: scripts look at them while they are imported.
    """

    path: str
    module: str | None
    argv: tuple[str, ...]

    @classmethod
    def current(cls) -> Self | None:
        """The program that runs now; None for prompts, `-c`, notebooks, pipes and archives."""
        main = sys.modules[_MAIN]
        path = getattr(main, "__file__", None)
        if path is None or not Path(path).is_file():
            return None
        # a directory that is run has a spec, but no name that could be imported
        module = main.__spec__.name if main.__spec__ and main.__spec__.name != _MAIN else None
        return cls(str(Path(path).absolute()), module, tuple(sys.argv))

    @staticmethod
    def is_loading() -> bool:
        """Whether a worker is just importing it: then it must not start workers of its own."""
        loading = sys.modules.get(_MAIN_IN_WORKER)
        return loading is not None and loading is not sys.modules[_MAIN]

    def load(self) -> ModuleType:
        """Import it under another name than `__main__`, so that its last block doesn't run."""
        loaded = sys.modules.get(_MAIN_IN_WORKER)
        if loaded is not None and loaded is sys.modules[_MAIN]:
            return loaded
        sys.argv[:] = self.argv
        if self.module is None:
            content = runpy.run_path(self.path, run_name=_MAIN_IN_WORKER)
        else:
            content = runpy.run_module(self.module, run_name=_MAIN_IN_WORKER, alter_sys=True)
        module = ModuleType(_MAIN_IN_WORKER)
        module.__dict__.update(content)
        sys.modules[_MAIN] = sys.modules[_MAIN_IN_WORKER] = module
        return module


@dataclass(frozen=True, slots=True)
class ConfiguredHandler:
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


@dataclass(frozen=True, slots=True)
class HandlerReference:
    """Where to find a class or function, in words that another process understands.

    Attributes:
        module: The module it is defined in.
        qualname: Its name in there.
        wrapped: Whether a decorator put something else under that name; it stands behind
            `__wrapped__` then.
        main: The program, if the module is `__main__`.
        sys_path: Where to look for modules.
        configuration: The arguments and the adapter of a `ConfiguredHandler`.
    """

    module: str
    qualname: str
    wrapped: bool
    main: MainScript | None
    sys_path: tuple[str, ...]
    configuration: Pickled | None = None

    @classmethod
    def to(cls, handler: Any) -> Self:
        """Refer to a class or function.

        Raises:
            HandlerNotFound: Another process could not find it, or can't be sent its arguments; the
                message says what to do.
        """
        if isinstance(handler, ConfiguredHandler):
            name, arguments = name_of(handler), (handler.init_args, handler.adapt)
            configuration = Pickled.of(arguments, f"init_args of {name}, or its types,")
            return replace(cls.to(handler.handler), configuration=configuration)
        module, qualname = _where(handler)
        main = None
        if module in {_MAIN, _MAIN_IN_WORKER}:
            module, main = _MAIN, MainScript.current()
            if main is None:
                msg = (
                    f"{qualname} comes from a prompt, a notebook, a pipe or an archive, and worker"
                    " processes can't import it from there: move it to a module"
                )
                raise HandlerNotFound(msg)
            # what a worker pickles names its classes so
            sys.modules.setdefault(_MAIN_IN_WORKER, sys.modules[_MAIN])
        try:
            wrapped = attrgetter(qualname)(sys.modules.get(module)) is not handler
        except AttributeError:
            wrapped = True  # its decorator asks, before the name is bound
        return cls(module, qualname, wrapped, main, tuple(sys.path))

    def load(self) -> Any:
        """Import it, in a process of its own.

        Raises:
            HandlerNotFound: There is no such module, or no such name in it.
            Exception: Whatever importing the module raised.
        """
        sys.path[:] = self.sys_path
        try:
            found = attrgetter(self.qualname)(self._import())
        except AttributeError as error:
            msg = f"module {self.module} has no {self.qualname} when a worker process imports it"
            raise HandlerNotFound(msg) from error
        if self.wrapped:
            found = getattr(found, "__wrapped__", found)
        if self.configuration is not None:
            return ConfiguredHandler(found, *self.configuration.load())
        return found

    def _import(self) -> ModuleType:
        if self.main is not None:
            return self.main.load()
        try:
            return importlib.import_module(self.module)
        except ModuleNotFoundError as error:
            missing = error.name or ""
            if self.module != missing and not self.module.startswith(f"{missing}."):
                raise  # one of its own imports
            msg = f"worker processes can't import {self.module}: no module named {missing!r}"
            raise HandlerNotFound(msg) from error


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


def _where(handler: Any) -> tuple[str, str]:
    module, qualname = getattr(handler, "__module__", None), getattr(handler, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(qualname, str):
        msg = (
            f"expected a class or function that worker processes can import, got {handler!r}: for"
            " an object give its class, each worker builds its own"
        )
        raise HandlerNotFound(msg)
    if "<" in qualname:  # <lambda>, <locals>
        msg = (
            f"{module}.{qualname} has no name that worker processes could import: define it with"
            " def or class at the top level of a module"
        )
        raise HandlerNotFound(msg)
    return module, qualname


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
