"""Endpoints that keep requests with different keys apart, or take several items in a request."""

import asyncio
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from adaptive_batching.dispatcher.calls import PENDING, OnEnd, settle
from adaptive_batching.errors import BatchFunctionError, InvalidItem
from adaptive_batching.marshal.http.error_responses import Rejected
from adaptive_batching.marshal.http.request import Request
from adaptive_batching.marshal.http.response import Response
from adaptive_batching.marshal.service.endpoint_runtime import EndpointCall, EndpointRuntime
from adaptive_batching.marshal.service.endpoints import LONGEST_KEY, Endpoint
from adaptive_batching.marshal.service.negotiation import Formats
from adaptive_batching.payloads.payload import Payload
from adaptive_batching.wire.error_reply import ItemFailed

KeyOf = Callable[[Mapping[str, str], int, bytes], Hashable]
"""The key of an item, of the headers of its request, the place of its codec, and its body."""


def key_of(endpoint: Endpoint) -> KeyOf | None:
    """What says the key of an endpoint's items; None if they have none."""
    if endpoint.key is None:
        return None
    if isinstance(endpoint.key, str):
        return _key_of_header(endpoint.key)
    return _key_of_item(endpoint.key, endpoint.contract.item)


def _key_of_header(name: str) -> KeyOf:
    """Make what takes the value of a header for the key; empty where there is none."""
    lower = name.lower()

    def key_of(headers: Mapping[str, str], _reads: int, _body: bytes) -> Hashable:
        value = headers.get(lower, "")
        if len(value) > LONGEST_KEY:
            raise Rejected(431, "headers_too_large")
        return value

    return key_of


def _key_of_item(function: Callable[[Any], Hashable], payload: Payload) -> KeyOf:
    """Make what reads an item and asks a function for its key."""
    readers = payload.readers()

    def key_of(_headers: Mapping[str, str], reads: int, body: bytes) -> Hashable:
        key = function(readers[reads](body))
        try:
            hash(key)
        except TypeError as error:
            raise BatchFunctionError(f"key: expected one that is hashable, got {key!r}") from error
        return key

    return key_of


@dataclass(slots=True, eq=False)
class IntakeRuntime(EndpointRuntime):
    """An endpoint at work whose items have keys, or come several in a request.

    Attributes:
        key_of: The key of an item; None for no key.
        most: Items that a request may bring; 0 if it brings one, and no list.
    """

    key_of: KeyOf | None = None
    most: int = 0

    def key_arguments(
        self, headers: Mapping[str, str], reads: int, body: bytes
    ) -> tuple[Hashable, ...]:
        """What `post` is told of an item beside the usual."""
        return () if self.key_of is None else (self.key_of(headers, reads, body),)

    def submit(self, request: Request, within: float, on_end: OnEnd) -> Any:
        """Let the items of a request join batches; see `EndpointRuntime.submit`."""
        if request.size > self.max_body:
            raise Rejected(413, "body_too_large", closes=True)
        formats: Any = request.context
        post = partial(self._post, request.headers, formats, within)
        if not self.most:
            return post(on_end, request.body)
        from adaptive_batching.payloads import lists  # noqa: PLC0415  it imports NumPy

        codec = self.negotiation.contract.item.codecs[formats.reads]
        return CallOfSeveral(lists.cut(codec, request.body, self.most), post, self, on_end)

    async def answer_all(
        self, bodies: Sequence[bytes], within: float, headers: Mapping[str, str]
    ) -> Sequence[bytes]:
        """Let items in the first codec join batches, and wait for all their answers.

        Raises:
            Exception: An item is refused, and then none is left in a queue; or what the first of
                those that failed ended with.
        """
        post = partial(self._post, headers, self.negotiation.default, within)
        outcomes: list[Any] = await self.outcome_of(CallOfSeveral(bodies, post, self, settle))
        failure = _first_failure(outcomes)
        if failure is not None:
            raise failure.error if isinstance(failure, ItemFailed) else failure
        return outcomes

    def _post(
        self,
        headers: Mapping[str, str],
        formats: Formats,
        within: float,
        on_end: OnEnd,
        body: bytes,
    ) -> EndpointCall:
        key = self.key_arguments(headers, formats.reads, body)
        return self.post(on_end, formats.item(body), within, *key)

    def withdraw(self, call: Any) -> None:
        """No answer to a call is wanted any more."""
        if isinstance(call, CallOfSeveral):
            call.leave()
        else:
            self.dispatcher.withdraw(call)

    def response(self, request: Request, outcome: Any, now: float) -> Response | Exception:
        """The answer to a request: of its items' errors the first in their order, or all results.

        Raises:
            BatchFunctionError: The results do not make one body.
        """
        if not self.most:
            return super(IntakeRuntime, self).response(request, outcome, now)
        failure = _first_failure(outcome)
        if failure is not None:
            return failure
        from adaptive_batching.payloads import lists  # noqa: PLC0415  it imports NumPy

        formats: Any = request.context
        body = lists.join(self.negotiation.contract.result.codecs[formats.writes], outcome)
        return Response(200, {**formats.headers, "X-Request-Id": request.id}, body)


class CallOfSeveral:
    """The calls of a request that brings several items: it ends when all of them have.

    Args:
        bodies: The items.
        post: Lets one of them join a batch.
        runtime: Where that is.
        on_end: Told of the end, in a later turn of the loop.

    Attributes:
        outcome: The outcomes of the items, in their order.
        future: As a `Call`'s.

    Raises:
        Exception: An item is refused at once: then no item is left in a queue.
    """

    future: "asyncio.Future[list[bytes | Exception]]"

    def __init__(
        self,
        bodies: Sequence[bytes],
        post: Callable[[OnEnd, bytes], EndpointCall],
        runtime: EndpointRuntime,
        on_end: OnEnd,
    ) -> None:
        self.outcome: Any = PENDING
        self._runtime = runtime
        self._on_end: Any = on_end
        self._waiting = len(bodies)
        self._calls: list[EndpointCall] = []
        try:
            for index, body in enumerate(bodies):
                self._calls.append(_posted(post, index, self._one_ended, body))
        except BaseException:
            self.leave()
            raise
        if not bodies:
            asyncio.get_running_loop().call_soon(self._end)

    def leave(self) -> None:
        """Take what waits out of the queue; `on_end` is not called any more."""
        self._on_end = None
        for call in self._calls:
            self._runtime.dispatcher.withdraw(call)

    def _one_ended(self, _call: EndpointCall) -> None:
        self._waiting -= 1
        if not self._waiting:
            self._end()

    def _end(self) -> None:
        if self._on_end is not None:
            self.outcome = [call.outcome for call in self._calls]
            self._on_end(self)


def _first_failure(outcomes: Sequence[bytes | Exception]) -> InvalidItem | ItemFailed | None:
    """What the first of the items that failed ended with, by its index."""
    for index, each in enumerate(outcomes):
        if isinstance(each, InvalidItem):
            return each.within(index)
        if isinstance(each, Exception):
            return ItemFailed(index, each)
    return None


def _posted(
    post: Callable[[OnEnd, bytes], EndpointCall], index: int, on_end: OnEnd, body: bytes
) -> EndpointCall:
    """Post an item; one that its key's function can't read is refused by its index."""
    try:
        return post(on_end, body)
    except InvalidItem as error:
        raise error.within(index) from error
