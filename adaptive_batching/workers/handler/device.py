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
    torch = sys.modules.get("torch")
    if torch is None or (results and not hold_exceptions(results)):
        return
    try:
        cuda = torch.cuda
        for device in range(cuda.device_count() if cuda.is_initialized() else 0):
            if cuda.memory_reserved(device):  # else nothing runs there, and nothing should
                cuda.synchronize(device)
    except RuntimeError as error:  # as PyTorch has CUDA's
        returned = (each for each in results if issubclass(type(each), BaseException))
        error.__cause__ = next(returned, None)  # says where in the handler
        raise DeviceLost(describe(error).partition("\n")[0]) from error
    except Exception:  # noqa: BLE001 - it only has PyTorch's name
        return
