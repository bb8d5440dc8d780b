"""Whether a process can still use its GPU after its handler has raised."""

import sys
from collections.abc import Sequence
from typing import Any

from adaptive_batching.exception_text import describe
from adaptive_batching.workers.handler.results import hold_exceptions


class DeviceLost(Exception):
    """This process can't use its GPU any more; a fresh process can.

    After an illegal memory access, or an assertion that failed in a kernel, CUDA answers each call
    of the process with that error. Such a worker would fail batches faster than others run them.
    """


def check_device(results: Sequence[Any] = ()) -> None:
    """Raise if the GPU is lost, which PyTorch says, if the handler uses it.

    Errors that last come again when PyTorch waits for the device, and others, such as an allocation
    that found no room, do not. It is not asked if all results are sound.

    Args:
        results: Of a handler that returned; none if it raised.

    Raises:
        DeviceLost: The GPU can't be used any more.
    """
    cuda: Any = getattr(sys.modules.get("torch"), "cuda", None)
    used = hasattr(cuda, "is_initialized") and cuda.is_initialized()
    if not used or (results and not hold_exceptions(results)):
        return
    try:
        for device in range(cuda.device_count()):
            if cuda.memory_reserved(device):  # else nothing runs there, and nothing should
                cuda.synchronize(device)
    except Exception as error:
        returned = (each for each in results if issubclass(type(each), BaseException))
        error.__cause__ = next(returned, None)  # says where in the handler
        raise DeviceLost(describe(error).partition("\n")[0]) from error
