"""Endpoints that take several items in a request, as a list."""

import asyncio
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Protocol

from adaptive_batching.core import JobOutcome
from adaptive_batching.dispatcher.calls import PENDING, CallInSteps, OnEnd, job_outcome, settle
from adaptive_batching.errors import CostError, InvalidItem, JobTooLarge, Refused
from adaptive_batching.marshal.http.error_responses import Rejected
from adaptive_batching.marshal.http.request import Request
from adaptive_batching.marshal.http.response import Response
from adaptive_batching.marshal.service.runtimes.endpoint_runtime import (
    EndpointCall,
    EndpointRuntime,
    Post,
)
from adaptive_batching.marshal.service.runtimes.negotiation import Formats
from adaptive_batching.wire.error_reply import ItemFailed

Keys = Sequence[tuple[Hashable, ...]]
"""What `post` is told of each item beside the usual: its key, where items have any."""


class PostAll(Protocol):
    """Lets items join batches, all or none."""

    def __call__(
        self, on_end: OnEnd, items: Sequence[Any], within: float, keys: Keys, /
    ) -> "CallOfSeveral | CallInSteps[Sequence[bytes | BaseException]]":
        """Return the call; its outcome is a list, or why the items were refused."""
        ...


@dataclass(slots=True, eq=False, kw_only=True)
class ListRuntime(EndpointRuntime):
    """An endpoint at work whose requests bring lists of items.

    Attributes:
        most: Items that a request may bring.
        post_all: Lets the items of a request join batches. Raises NoWorkers while the workers are
            not ready.
    """

    most: int
    post_all: PostAll
    _lists: ModuleType = field(init=False)

    def __post_init__(self) -> None:
        """Import what cuts and joins lists, which imports NumPy, before a request waits for it."""
        from adaptive_batching.payloads import lists  # noqa: PLC0415  services without lists don't

        self._lists = lists

    def submit(self, request: Request, within: float, on_end: OnEnd) -> Any:
        """Let the items of a request join batches; see `EndpointRuntime.submit`."""
        if request.size > self.max_body:
            raise Rejected(413, "body_too_large", closes=True)
        formats: Any = request.context
        codec = self.negotiation.contract.item.codecs[formats.reads]
        bodies = self._lists.cut(codec, request.body, self.most)
        return self._posted(bodies, formats, request.headers, within, on_end)

    async def answer_all(
        self, bodies: Sequence[bytes], within: float, headers: Mapping[str, str]
    ) -> Sequence[bytes]:
        """Let items in the first codec join batches, and wait for all their answers.

        Raises:
            Exception: An item is refused, and then none is left in a queue; or what the first of
                those that failed ended with.
        """
        formats = self.negotiation.default
        try:
            call = self._posted(bodies, formats, headers, within, settle)
            outcomes: list[Any] = await self.outcome_of(call)
            if (failure := _first_failure(outcomes)) is not None:
                raise failure
        except ItemFailed as failed:
            error = failed.error
        else:
            return outcomes
        raise error  # with its own cause: the caller has one item's error, not where it stood

    def _posted(
        self,
        bodies: Sequence[bytes],
        formats: Formats,
        headers: Mapping[str, str],
        within: float,
        on_end: OnEnd,
    ) -> Any:
        keys = []
        for index, body in enumerate(bodies):
            try:
                keys.append(self.key_arguments(headers, formats.reads, body, len(bodies)))
            except InvalidItem as error:
                raise error.within(index) from error
        return self.post_all(on_end, [*map(formats.item, bodies)], within, keys)

    def withdraw(self, call: Any) -> None:
        """No answer to a call is wanted any more."""
        call.leave()

    def response(self, request: Request, outcome: Any, now: float) -> Response | Exception:
        """The answer to a request: of its items' errors the first in their order, or all results.

        Raises:
            BatchFunctionError: The results do not make one body.
        """
        if isinstance(outcome, Exception):
            return outcome
        failure = _first_failure(outcome)
        if failure is not None:
            return failure
        formats: Any = request.context
        body = self._lists.join(self.negotiation.contract.result.codecs[formats.writes], outcome)
        return Response(200, {**formats.headers, "X-Request-Id": request.id}, body)


class CallOfSeveral:
    """The calls of a request that brings several items: it ends when all of them have.

    It ends at once when one of them is turned away, for the request can't be answered then; those
    that wait are not computed in vain, and count as that one does.

    Args:
        post: Lets one item join a batch.
        withdraw: Says that the answer to one is not wanted.
        take_out: Takes one that waits out of the queue, to count as it is told.
        fail_unseen: Counts those that are not submitted any more.
        on_end: Told of the end, in a later turn of the loop.
        items: What the handler gets in its lists.
        within: Seconds until the answers.
        keys: See `Keys`.

    Attributes:
        outcome: The outcomes of the items, in their order.
        future: As a `Call`'s.

    Raises:
        Exception: An item is refused at once: then no item is left in a queue.
    """

    future: "asyncio.Future[list[bytes | Exception]]"

    def __init__(
        self,
        post: Post,
        withdraw: Callable[[EndpointCall], None],
        take_out: Callable[[EndpointCall, JobOutcome], None],
        fail_unseen: Callable[[Exception, Sequence[Hashable], float], None],
        on_end: OnEnd,
        items: Sequence[Any],
        within: float,
        keys: Keys,
    ) -> None:
        self.outcome: Any = PENDING
        self._withdraw = withdraw
        self._take_out = take_out
        self._on_end: Any = on_end
        self._waiting = len(items)
        self._calls: list[EndpointCall] = []
        try:
            for item, key in zip(items, keys, strict=True):
                self._calls.append(post(self._one_ended, item, within, *key))
        except Exception as error:
            place = len(self._calls)
            self._give_up(error)
            fail_unseen(error, [key[0] if key else None for key in keys[place + 1 :]], within)
            # An item is found to be invalid here if it is read to know its cost.
            if isinstance(error, CostError | InvalidItem | JobTooLarge):
                raise _failed(place, error) from error
            raise
        except BaseException:
            self.leave()
            raise
        if not items:
            asyncio.get_running_loop().call_soon(self._end)

    def leave(self) -> None:
        """Take what waits out of the queue; `on_end` is not called any more."""
        self._on_end = None
        for call in self._calls:
            self._withdraw(call)

    def _give_up(self, error: Exception) -> None:
        """What waits is not wanted without the item that ended with an error."""
        outcome = job_outcome(error)
        for call in self._calls:
            self._take_out(call, outcome)

    def _one_ended(self, call: EndpointCall) -> None:
        self._waiting -= 1
        if not self._waiting:
            self._end()
        elif isinstance(call.outcome, Refused):
            self._give_up(call.outcome)
            self._end()

    def _end(self) -> None:
        if self._on_end is not None:
            on_end, self._on_end = self._on_end, None
            self.outcome = [call.outcome for call in self._calls]
            on_end(self)


def _first_failure(outcomes: Sequence[bytes | Exception]) -> InvalidItem | ItemFailed | None:
    """What the first of the items that failed ended with, by its index."""
    for index, each in enumerate(outcomes):
        if isinstance(each, Exception):
            return _failed(index, each)
    return None


def _failed(index: int, error: Exception) -> InvalidItem | ItemFailed:
    """An item's error, with its place among those of the request."""
    return error.within(index) if isinstance(error, InvalidItem) else ItemFailed(index, error)
