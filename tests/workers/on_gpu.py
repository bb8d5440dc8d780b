"""A handler whose process can lose its GPU, or, where there is none, a stand-in for it."""

import sys
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from unittest.mock import Mock, patch

from adaptive_batching.workers.handler.device import check_device


class StandIn:
    """As much of `torch.cuda` as a worker asks for, with one device."""

    def __init__(self):
        self.lost = False
        self.reserved = 2**20

    def is_initialized(self):
        return True

    def device_count(self):
        return 1

    def memory_reserved(self, device):
        return self.reserved

    def synchronize(self, device=0):
        if self.lost:
            msg = "CUDA error: device-side assert triggered\nSearch for `cudaErrorAssert' in …"
            raise RuntimeError(msg)


class Broken(ModuleType):
    """Loads what it needs when it is asked, which is not there."""

    def __getattr__(self, name):
        raise ImportError(name)


class OnGpu:
    """Does what the first item says with its GPU; anything else it returns as it came."""

    def __init__(self):
        self._torch = None
        if find_spec("torch"):
            import torch

            self._torch = torch if torch.cuda.is_available() else None
        if self._torch is None:
            self._cuda = StandIn()
            sys.modules["torch"] = SimpleNamespace(cuda=self._cuda)

    def __call__(self, items):
        return getattr(self, str(items[0]), self.echo)(items)

    def echo(self, items):
        self._use()
        return items

    def wrong(self, items):
        raise ArithmeticError(items[0])

    def odd(self, items):
        """Modules that only have its name."""
        for torch in (SimpleNamespace(cuda=object()), Mock(), ModuleType("torch"), Broken("torch")):
            with patch.dict(sys.modules, torch=torch):
                check_device()
        raise ArithmeticError(items[0])

    def unused(self, items):
        """What another process has done to a GPU is not this one's."""
        elsewhere = StandIn()
        elsewhere.lost, elsewhere.reserved = True, 0
        with patch.dict(sys.modules, torch=SimpleNamespace(cuda=elsewhere)):
            check_device()
        raise ArithmeticError(items[0])

    def assertion(self, items):
        self._fail()
        self._use()

    def assertion_of_one(self, items):
        """The handler catches what fails, and says so for each item."""
        self._fail()
        try:
            self._use()
        except Exception as error:  # noqa: BLE001 - as handlers do
            return [error for _ in items]

    def assertion_in_a_list(self, items):
        """Each item's own result is fetched for itself."""
        self._fail()
        return [Fetched(self._use) for _ in items]

    def assertion_later(self, items):
        """What runs on the GPU fails after the handler has returned, when results are fetched."""
        self._fail()
        return Fetched(self._use)

    def _fail(self):
        if self._torch is None:
            self._cuda.lost = True
        else:
            there = self._torch.zeros(10, device="cuda")
            there[self._torch.full((1,), 10**9, device="cuda")]

    def _use(self):
        if self._torch is None:
            self._cuda.synchronize()
        else:
            self._torch.ones(1, device="cuda").item()


class Fetched:
    """Results on a GPU."""

    def __init__(self, fetch):
        self._fetch = fetch

    def __array__(self, dtype=None, copy=None):
        self._fetch()

    def __reduce__(self):
        self._fetch()
