"""Calls an endpoint's handler from the program that runs its service."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from adaptive_batching.errors import InvalidItem, JobTooLarge, NoWorkers, WrongEventLoop
from adaptive_batching.exception_text import qualname_of
from adaptive_batching.marshal.service.endpoints import LONGEST_KEY, Endpoint, PipelineEndpoint
from adaptive_batching.payloads.reading import make_reader
from adaptive_batching.payloads.writing import make_item_writer
from adaptive_batching.units import Duration, patience_of
from adaptive_batching.workers.handler.results import sequence_of

if TYPE_CHECKING:  # worker processes import this module, but serve nothing
    from adaptive_batching.marshal.service.runtimes.endpoint_runtime import EndpointRuntime
    from adaptive_batching.marshal.service.runtimes.endpoint_runtimes import EndpointRuntimes
    from adaptive_batching.marshal.service.runtimes.list_runtime import ListRuntime


class InProcessEndpoint:
    """Calls an endpoint from the program that runs it: `await service["/predict"](item)`.

    An item waits in the same queue as those of HTTP requests. It is written in the endpoint's first
    codec and validated by the worker, and the result is read back as an object of the declared
    type, so that the handler can't tell it from a client's.

    Args:
        endpoint: What was declared of it.
        at_work: The runtimes of the service that have been started.
    """

    def __init__(
        self, endpoint: Endpoint | PipelineEndpoint, at_work: "Sequence[EndpointRuntimes]"
    ) -> None:
        contract = endpoint.contract
        self._path = endpoint.path
        self._most = endpoint.most
        self._header = endpoint.key if isinstance(endpoint.key, str) else None
        self._at_work = at_work
        self._write = make_item_writer(contract.item.codecs[0], contract.item.kind)
        self._read = make_reader(contract.result.codecs[contract.writes(0)], contract.result.kind)

    def __repr__(self) -> str:
        return f"<InProcessEndpoint {self._path}>"

    async def __call__(
        self, item: Any, *, max_latency: Duration | None = None, key: str | None = None
    ) -> Any:
        """Let an item join a batch and return its result.

        Args:
            item: An object of the type that the endpoint takes, or what JSON has for one. An
                endpoint with `many` takes a list of them and returns that of their results.
            max_latency: Seconds until the result, or a text such as `"100ms"`. Of this and the
                endpoint's, the smaller holds.
            key: The value of the header that is the endpoint's `key`.

        Raises:
            InvalidItem: The item is not of the endpoint's type.
            Refused: Before any work was done: Overloaded, QueueFull, Draining. Of several items
                that find no room together none stays in the queue.
            NoWorkers: The service does not run in this program, or its workers still load.
            DeadlineExceeded: The deadline came before the result.
            WrongEventLoop: The service runs on another event loop.
            TypeError: A key is given, and no header is the endpoint's.
            ValueError: The key is no text, or longer than a header's may be; `max_latency` is no
                number.
            Exception: What the handler raised, or returned in this item's place; of several the
                first in the order of the items.
        """
        runtime, headers = self._runtime(), self._headers(key)
        within = patience_of(max_latency, runtime.max_latency)
        if self._most is None:
            body, formats = self._write(item), runtime.negotiation.default
            keys = runtime.key_arguments(headers, formats.reads, body)
            return self._read(await runtime.answer(formats.item(body), within, *keys))
        bodies = self._bodies(item, self._most)
        answers = await cast("ListRuntime", runtime).answer_all(bodies, within, headers)
        return [*map(self._read, answers)]

    def _headers(self, key: object) -> dict[str, str]:
        """Those of a request with this key."""
        if key is None:
            return {}
        if self._header is None:
            raise TypeError(f"key: expected none, for no header is the key of {self._path}")
        if not (isinstance(key, str) and len(key) <= LONGEST_KEY):
            msg = f"key: expected a text of at most {LONGEST_KEY} characters, got {key!r:.300}"
            raise ValueError(msg)
        return {self._header.lower(): key}

    def _bodies(self, items: object, most: int) -> list[bytes]:
        """The body of each item of a list."""
        listed = sequence_of(items)
        if listed is None:
            raise InvalidItem("$", f"expected a list of items, got {qualname_of(type(items))}")
        if len(listed) > most:
            raise JobTooLarge(f"expected at most {most} items in one call, got {len(listed)}")
        bodies = []
        for index, each in enumerate(listed):
            try:
                bodies.append(self._write(each))
            except InvalidItem as error:
                raise error.within(index) from error
        return bodies

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
