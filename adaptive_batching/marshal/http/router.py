"""What a service and a sidecar do alike: let each request have one answer, from its destination."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import Counter
from functools import partial
from math import inf
from time import monotonic
from typing import Any, Generic, TypeVar

from aiohttp import web

from adaptive_batching.core import QueueingDelay
from adaptive_batching.dispatcher import request_name
from adaptive_batching.errors import DeadlineExceeded, Overloaded
from adaptive_batching.exception_text import exc_info
from adaptive_batching.marshal.http.deadline import deadline_of
from adaptive_batching.marshal.http.destination import (
    Destination,
    OnCallEnd,
    PendingCall,
    TenantCounter,
)
from adaptive_batching.marshal.http.error_log import ErrorLog
from adaptive_batching.marshal.http.error_responses import Rejected, refusal
from adaptive_batching.marshal.http.handler import Keep, Respond
from adaptive_batching.marshal.http.limits import MemoryLimit
from adaptive_batching.marshal.http.request import Request
from adaptive_batching.marshal.http.response import Response, as_aiohttp
from adaptive_batching.units import format_duration
from adaptive_batching.wire.error_reply import acceptable_id, new_request_id

_log = logging.getLogger("adaptive_batching.marshal")

UNROUTED = "other"
"""The label of all requests without a destination."""

_REFUSED = 503

D = TypeVar("D", bound=Destination)


class Router(ABC, Generic[D]):
    """Finds the destination of each request and answers what waits; a `Handler`.

    Args:
        max_in_flight: Requests at a time; more are refused.
        held: Counts the bytes of the bodies that are kept.
        tenants: Counts the requests of each tenant; None if tenants are not told apart.

    Attributes:
        draining: Whether clients are told to go elsewhere; what comes is answered all the same.
        in_flight: Requests that are being answered.
        held: As it was given.
        unrouted: Answers by status to requests without a destination.
        errors: What clients are not told.
        tunnels: Whether a request that is passed on may be answered by switching to WebSocket.
    """

    tunnels = False

    def __init__(
        self, max_in_flight: int, held: MemoryLimit, tenants: TenantCounter | None = None
    ) -> None:
        self.draining = False
        self.in_flight = 0
        self.held = held
        self.unrouted: Counter[int] = Counter()
        self.errors = ErrorLog()
        self._max_in_flight = max_in_flight
        self._tenants = tenants
        self._is_pressed = False  # the last request was refused, so others may have to be
        self._delay = QueueingDelay()
        self._emptied = asyncio.Event()

    # --------------------------------------------------------------- what a service or a sidecar is

    @abstractmethod
    def find(self, target: str) -> D | None:
        """The destination of a path and query; None if there is none."""

    @abstractmethod
    async def answer_passed(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request that no destination answers from its body.

        Raises:
            Exception: There is no answer.
        """

    def label_of(self, target: str) -> str:
        """What a request for a target is called in the log; none that a client chose."""
        destination = self.find(target)
        return UNROUTED if destination is None else destination.label

    # ------------------------------------------------------------------------- as a `Handler` does

    def keep(self, request: Request) -> Keep | None:
        """How much of a body to keep that has only begun to arrive; see `Handler`."""
        destination = self.find(request.target)
        if destination is None or not destination.takes(request):
            return None
        self._enter(request)
        destination.check(request)
        keep = destination.keep(request)
        if request.length is not None:
            if request.length > keep.limit:
                raise Rejected(413, "body_too_large", closes=True)
            self.hold(request, request.length)  # what is announced will come
        return keep

    def hold(self, request: Request, size: int) -> None:
        """Count the bytes of a body as held: so many so far."""
        if size > request.held:
            self.held.take(size - request.held)
            request.held = size

    def drop(self, request: Request) -> None:
        """Count a request no longer."""
        if request.is_counted:
            request.is_counted = False
            if self._tenants is not None:
                self._tenants.leave(request.tenant)
            self.held.give_back(request.held)
            request.held = 0
            self._leave()

    def begin(self, request: Request, respond: Respond) -> "InFlightRequest[D] | Response | None":
        """Begin to answer a request that is whole; see `Handler`."""
        destination = self.find(request.target)
        if destination is None or not destination.takes(request):
            self.drop(request)
            return None
        name_request(request)
        on_end = partial(self._conclude, destination, request, respond)
        try:
            call = self._submitted(destination, request, on_end)
        except Exception as error:  # noqa: BLE001  a client gets an answer, whatever went wrong
            self.drop(request)
            return self._refused(error, request, destination)
        if call is None:
            self.drop(request)
            return None
        return InFlightRequest(self, destination, request, call)

    def refusal(self, request: Request | None, error: Exception) -> Response:
        """The answer to a request that failed before it began; see `Handler`."""
        if request is None:
            return self.errors.answer(error, new_request_id(), "http")
        name_request(request)
        return self._refused(error, request, self.find(request.target))

    async def pass_on(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request as aiohttp sees it; see `Handler`."""
        name = acceptable_id(request.headers.get("X-Request-Id"))
        request_name.set(name)
        self.in_flight += 1
        try:
            response = await self.answer_passed(request)
        except ConnectionError:
            raise  # the answer has begun, and broke off
        except Exception as error:  # noqa: BLE001  a client gets an answer, whatever went wrong
            label = self.label_of(request.raw_path)
            response = as_aiohttp(self.errors.answer(error, name, label))
        finally:
            self._leave()
        self._count(response.status, self.find(request.raw_path))
        if self.draining:
            response.force_close()
        return response

    async def emptied(self) -> None:
        """Wait until no request is being answered."""
        while self.in_flight:
            self._emptied.clear()
            await self._emptied.wait()

    # ------------------------------------------------------------------------------ from in to out

    def _submitted(self, destination: D, request: Request, on_end: OnCallEnd) -> PendingCall | None:
        """The call of a request that is whole; None if it is passed on."""
        within = request.max_latency = min(deadline_of(request.headers), destination.max_latency)
        if within < inf:
            within = self._time_left(destination, request)
        if not request.is_counted:
            self._enter(request)
            destination.check(request)
        self.hold(request, request.size)
        return destination.submit(request, within, on_end)

    def _time_left(self, destination: D, request: Request) -> float:
        """Seconds until a request's call has to have ended, for its answer to be in time.

        Raises:
            Overloaded: It would be late, whatever it brings.
            DeadlineExceeded: It is late.
        """
        now, max_latency = monotonic(), request.max_latency
        waited = now - request.came
        if request.is_prompt:
            self._delay.noticed(waited, 0.0, now)
        if (request.unread or self._is_pressed) and not self.draining:
            self._shed(destination, request, now)
        if waited >= max_latency:
            raise DeadlineExceeded("its time was over when its body had arrived")
        left = max_latency - waited - self._delay.allowance(max_latency)
        if left <= 0:
            within = format_duration(max_latency)
            raise Overloaded(f"an answer within max_latency={within} is out of reach")
        return left

    def _shed(self, destination: D, request: Request, now: float) -> None:
        """Refuse a request that would be answered late, whatever it brings, without a look at it.

        Args:
            destination: Of the request.
            request: The request.
            now: The present (monotonic seconds).

        Raises:
            Overloaded: It is one.
        """
        left = self._delay.left(request.max_latency, request.unread, now)
        if left <= 0:
            raise Overloaded(f"it was read {format_duration(request.unread)} after it came")
        wait = destination.refuse_unseen(left) if self._is_pressed else None
        if wait is not None:
            message = f"an answer within {format_duration(left)}, what is left of max_latency,"
            message += " is out of reach"
            raise Overloaded(message, retry_after=wait)

    def _conclude(
        self, destination: D, request: Request, respond: Respond, call: PendingCall
    ) -> None:
        """Answer a request whose call has ended, or pass it on after all."""
        self.drop(request)
        try:
            response = self._response(destination, request, call.outcome)
        except Exception as error:  # noqa: BLE001  a client gets an answer, whatever went wrong
            _log.error("an answer could not be made", exc_info=exc_info(error))
            response = refusal(Rejected(500, "internal"), request.id)
            self._count(response.status, destination)
        respond(response)

    def _response(self, destination: D, request: Request, outcome: Any) -> Response | None:
        now = monotonic()
        response: Response | Exception | None
        try:
            response = destination.response(request, outcome, now)
        except Exception as error:  # noqa: BLE001  what is wrong with it is told as other errors are
            response = error
        if isinstance(response, Exception):
            return self._refused(response, request, destination)
        if response is not None:
            self._count(response.status, destination)
            if request.max_latency < inf:  # no other call tells how long an answer takes to leave
                self._delay.answered(now - destination.concluded)
        return response

    def _refused(self, error: Exception, request: Request, destination: D | None) -> Response:
        label = UNROUTED if destination is None else destination.label
        response = self.errors.answer(error, request.id, label)
        self._count(response.status, destination)
        return response

    def _enter(self, request: Request) -> None:
        """Count a request.

        Raises:
            Overloaded: There are too many.
            Rejected: Its tenant has too many.
        """
        self.check_room(self.in_flight + 1)
        if self._tenants is not None:
            request.tenant = self._tenants.enter(request.headers)
        request.is_counted = True
        self.in_flight += 1

    def check_room(self, in_flight: int) -> None:
        """See to it that there are not too many requests.

        Raises:
            Overloaded: There are.
        """
        if in_flight > self._max_in_flight:
            raise Overloaded(f"max_in_flight={self._max_in_flight} requests are in flight already")

    def _leave(self) -> None:
        self.in_flight -= 1
        if not self.in_flight:
            self._emptied.set()

    def _count(self, status: int, destination: D | None) -> None:
        (self.unrouted if destination is None else destination.responses)[status] += 1
        self._is_pressed = status == _REFUSED


class InFlightRequest(Generic[D]):
    """A request that waits for the end of its call.

    Args:
        router: Counts it.
        destination: Where it waits.
        request: What it asks.
        call: What it waits for.
    """

    __slots__ = ("_call", "_destination", "_request", "_router")

    def __init__(
        self, router: Router[D], destination: D, request: Request, call: PendingCall
    ) -> None:
        self._router = router
        self._destination = destination
        self._request = request
        self._call = call

    def leave(self) -> None:
        """Give up: the client has gone."""
        self._destination.withdraw(self._call)
        self._router.drop(self._request)


def name_request(request: Request) -> None:
    """Give a request its name, under which its calls are made."""
    request.id = request.id or acceptable_id(request.headers.get("x-request-id"))
    request_name.set(request.id)
