"""How a worker process finds a handler: by the name under which it can import it."""

import importlib
import runpy
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any, Self

from adaptive_batching.errors import HandlerNotFound
from adaptive_batching.workers.handler.handler import ConfiguredHandler, name_of
from adaptive_batching.workers.handler.multi_handler import NamedHandler, multi_handler
from adaptive_batching.workers.handler.pickled import Pickled

_MAIN = "__main__"
_MAIN_IN_WORKER = (
    "__mp_main__"  # multiprocessing's name for it: a pickle made there can be read here
)


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
        main = _main_module()
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
        # multiprocessing sets __mp_main__ to __main__ when it is first imported, which must not
        # happen while the program loads.
        importlib.import_module("multiprocessing")
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
            configuration = Pickled.of(arguments, f"init_args of {name}, its types or its pad")
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
        defines = sys.modules.get(module) if main is None else _main_module()
        try:
            wrapped = attrgetter(qualname)(defines) is not handler
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


@dataclass(frozen=True, slots=True)
class HandlerReferences:
    """Where another process finds the handlers; stands in for a `HandlerReference`.

    Attributes:
        found: By name, each handler and what it is wrapped in.
    """

    found: Mapping[str, tuple[HandlerReference, Pickled]]

    @classmethod
    def to(cls, members: Sequence[NamedHandler]) -> "HandlerReferences":
        """Refer to some handlers.

        Raises:
            HandlerNotFound: Another process could not find one.
        """
        return cls(
            {
                each.name: (HandlerReference.to(each.handler), Pickled.of(each.wrap))
                for each in members
            }
        )

    @property
    def qualname(self) -> str:
        """What they are called in messages."""
        return "+".join(handler.qualname for handler, _ in self.found.values())

    def load(self) -> type:
        """Import all, in a process of its own; returns a handler that is all of them."""
        return multi_handler(
            {name: (h.load(), wrap.load()) for name, (h, wrap) in self.found.items()}
        )


def _main_module() -> ModuleType:
    """The program; in a process that multiprocessing started, also while that imports it anew."""
    return sys.modules.get(_MAIN_IN_WORKER, sys.modules[_MAIN])


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
