"""Whether a process can still use its GPU after its handler has raised."""

import sys
from collections.abc import Sequence
from typing import Any

from adaptive_batching.exception_text import describe
from adaptive_batching.workers.handler.results import hold_exceptions


class DeviceLost(Exception):
    """This process can't use its GPU any more; another one can.

    After an illegal memory access, or an assertion that failed in a kernel, CUDA answers each call
    of the process with that error. Such a worker would fail batches faster than others run them.
    """


def check_device(results: Sequence[Any] = ()) -> None:
    """See to it that what comes next has a device, if some results are exceptions.

    PyTorch is asked, if it is what the handler uses: errors that last come again when it waits for
    the device, and others, such as an allocation that found no room, do not.

    Args:
        results: Of a handler that returned; none if it raised.

    Raises:
        DeviceLost: There is none any more.
    """
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is None or not cuda.is_initialized() or (results and not hold_exceptions(results)):
        return
    try:
        for device in range(cuda.device_count()):
            if cuda.memory_reserved(device):  # else nothing runs there, and nothing should
                cuda.synchronize(device)
    except Exception as error:
        raise DeviceLost(describe(error).partition("\n")[0]) from error
