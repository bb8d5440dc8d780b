"""Calls an endpoint's handler from the program that runs its service."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from adaptive_batching.errors import NoWorkers, WrongEventLoop
from adaptive_batching.payloads.contract import Contract
from adaptive_batching.payloads.reading import make_reader
from adaptive_batching.payloads.writing import make_item_writer

if TYPE_CHECKING:  # worker processes import this module, but serve nothing
    from adaptive_batching.marshal.service.endpoint_runtime import EndpointRuntime
    from adaptive_batching.marshal.service.endpoint_runtimes import EndpointRuntimes


class InProcessEndpoint:
    """Calls an endpoint from the program that runs it: `await service["/predict"](item)`.

    An item waits in the same queue as those of HTTP requests. It is written in the endpoint's first
    codec and validated by the worker, and the result is read back as an object of the declared
    type, so that the handler can't tell it from a client's.

    Args:
        path: Of the endpoint.
        contract: What its bodies hold.
        at_work: The runtimes of the service that have been started.
    """

    def __init__(
        self, path: str, contract: Contract, at_work: "Sequence[EndpointRuntimes]"
    ) -> None:
        self._path = path
        self._at_work = at_work
        self._write = make_item_writer(contract.item.codecs[0], contract.item.kind)
        writes = contract.writes_by_default
        self._read = make_reader(contract.result.codecs[writes], contract.result.kind)

    def __repr__(self) -> str:
        return f"<InProcessEndpoint {self._path}>"

    async def __call__(self, item: Any, *, max_latency: float | None = None) -> Any:
        """Let an item join a batch and return its result.

        Args:
            item: An object of the type that the endpoint takes, or what JSON has for one.
            max_latency: Seconds until the result, where that is less than the endpoint's.

        Raises:
            InvalidItem: The item is not of the endpoint's type.
            Refused: Before any work was done: Overloaded, QueueFull, Draining.
            NoWorkers: The service does not run in this program, or its workers still load.
            DeadlineExceeded: The deadline came before the result.
            WrongEventLoop: The service runs on another event loop.
            Exception: What the handler raised, or returned in this item's place.
        """
        runtime = self._runtime()
        within = runtime.max_latency
        if max_latency is not None:
            within = min(within, max_latency)
        formats = runtime.negotiation.default
        return self._read(await runtime.answer(formats.item(self._write(item)), within))

    def _runtime(self) -> "EndpointRuntime":
        loop = asyncio.get_running_loop()
        for runtimes in reversed(self._at_work):
            if runtimes.loop is loop:
                return runtimes.by_path[self._path]
        if self._at_work:
            raise WrongEventLoop(
                f"the service of {self._path} runs on another event loop: call it there, as with"
                " `asyncio.run_coroutine_threadsafe`"
            )
        raise NoWorkers(
            f"the service of {self._path} does not run in this process: call it within"
            " `async with service.running():` or `service.running_workers():`"
        )
