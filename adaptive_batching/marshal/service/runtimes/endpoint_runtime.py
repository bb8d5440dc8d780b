"""The way of one endpoint's requests, from a body to its answer."""

import asyncio
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Protocol

from adaptive_batching.core import Limits, PolicyLike
from adaptive_batching.dispatcher import Dispatcher
from adaptive_batching.dispatcher.calls import Call, CallInSteps, OnEnd, settle
from adaptive_batching.errors import NoWorkers
from adaptive_batching.instrumentation.live.watch import Watched
from adaptive_batching.marshal.http.error_responses import Rejected
from adaptive_batching.marshal.http.handler import Keep
from adaptive_batching.marshal.http.request import Request
from adaptive_batching.marshal.http.response import Response
from adaptive_batching.marshal.service.runtimes.keys import KeyOf
from adaptive_batching.marshal.service.runtimes.negotiation import Negotiation


class Backend(Protocol):
    """What answers the bodies of an endpoint: a dispatcher, or several in sequence."""

    @property
    def ready(self) -> bool:
        """Whether its workers have been ready."""
        ...

    async def start(self) -> None:
        """Start the workers and wait until they are ready."""
        ...

    def flush(self) -> None:
        """From now on let what waits leave as soon as a worker is free."""
        ...

    async def aclose(self, timeout: float | None = None) -> None:  # noqa: ASYNC109  a drain
        """Let what waits finish, then stop the workers."""
        ...


EndpointCall = Call[Any, bytes] | CallInSteps[bytes]
Post = Callable[..., EndpointCall]


@dataclass(slots=True, eq=False)
class EndpointRuntime:
    """An endpoint at work; a `Destination`.

    Attributes:
        path: Where it is.
        backend: The handler that starts and closes with this endpoint.
        negotiation: Settles the codecs of a request.
        post: Lets an item join a batch. Takes `on_end`, the item (a body with its codecs), the
            seconds until the answer, and a key where the endpoint has any. Raises NoWorkers while
            the workers are not ready.
        dispatcher: Forms its batches, and its answers: of a pipeline, the last stage's.
        max_latency: Seconds from a request's arrival to its answer; infinite for no limit.
        max_body: Bytes that a body may have.
        body_timeout: Seconds that a body may take to arrive.
        watched: Where batches are formed on the way.
        examples: Items that should have an answer.
        fail_unseen: Counts items that failed before they could join a batch; see `Dispatcher`.
        retune: Has batches formed by another policy and other limits; None if it can't be done.
        key_of: The key of an item; None if items have none.
        responses: Answers by status.
    """

    path: str
    backend: Backend
    negotiation: Negotiation
    post: Post
    dispatcher: Dispatcher[Any, Any]
    max_latency: float
    max_body: int
    watched: Sequence[Watched]
    examples: Sequence[Any]
    fail_unseen: Callable[..., None]
    retune: Callable[[PolicyLike, Limits], None] | None = None
    key_of: KeyOf | None = None
    body_timeout: float = inf
    responses: Counter[int] = field(default_factory=Counter)

    @property
    def label(self) -> str:
        """Its name in metrics and in the log."""
        return self.path

    @property
    def concluded(self) -> float:
        """When the last batch ended (monotonic seconds)."""
        return self.dispatcher.concluded

    def takes(self, request: Request) -> bool:
        """Whether it answers a request from its whole body, as it does all."""
        return True

    def check(self, request: Request) -> None:
        """Refuse a request before its body is read, and settle its codecs.

        Raises:
            Rejected: Endpoints take POST, some codecs, and no compressed body: none is inflated.
            NoWorkers: They are not there yet.
        """
        if request.method != "POST":
            raise Rejected(405, "method_not_allowed", headers={"Allow": "POST"})
        headers = request.headers
        request.context = self.negotiation.settle(headers)
        if not self.backend.ready:
            raise NoWorkers("the workers are still loading")
        coding = headers.get("content-encoding")
        if coding is not None and {*map(str.strip, coding.lower().split(","))} != {"identity"}:
            raise Rejected(415, "unsupported_encoding", closes=True)
        if (request.length or 0) > self.max_body:
            raise Rejected(413, "body_too_large", closes=True)

    def keep(self, request: Request) -> Keep:
        """How much of a body that is arriving is kept."""
        return Keep(self.max_body, self.body_timeout, passes_on=False)

    def submit(self, request: Request, within: float, on_end: OnEnd) -> EndpointCall:
        """Let the item of a request join a batch.

        Raises:
            Rejected: The body is larger than `max_body`.
            NoWorkers: They are not there yet.
            Refused: The dispatcher does not take it.
            InvalidItem: The function that knows its key can't read it.
        """
        if request.size > self.max_body:
            raise Rejected(413, "body_too_large", closes=True)
        formats: Any = request.context
        key = self.key_arguments(request.headers, formats.reads, request.body)
        return self.post(on_end, formats.item(request.body), within, *key)

    def withdraw(self, call: EndpointCall) -> None:
        """No answer to a call is wanted any more."""
        self.dispatcher.withdraw(call)

    def response(
        self, request: Request, outcome: bytes | Exception, now: float
    ) -> Response | Exception:
        """The answer to a request whose call has ended; or the exception that it ended with."""
        if isinstance(outcome, Exception):
            return outcome
        formats: Any = request.context
        return Response(200, {**formats.headers, "X-Request-Id": request.id}, outcome)

    def refuse_unseen(self, within: float) -> float | None:
        """Refuse a request if that is certain, whatever it brings; see `Dispatcher`."""
        if self.backend is not self.dispatcher or not self.backend.ready:
            return None
        return self.dispatcher.refuse_unseen(within)

    def key_arguments(
        self, headers: Mapping[str, str], reads: int, body: bytes, items: int = 1
    ) -> tuple[Hashable, ...]:
        """What `post` is told of an item beside the usual: its key, if items have any.

        Raises:
            Rejected: Its header is too long.
            Exception: The item can't be read, or the function for its key failed; that counts for
                all `items` of its request.
        """
        if self.key_of is None:
            return ()
        try:
            return (self.key_of(headers, reads, body),)
        except Rejected:
            raise
        except Exception as error:
            self.fail_unseen(error, [None] * items)
            raise

    async def answer(self, item: Any, within: float, *key: Hashable) -> bytes:
        """Let an item join a batch, and wait for its answer; see `submit`."""
        answer: bytes = await self.outcome_of(self.post(settle, item, within, *key))
        return answer

    async def outcome_of(self, call: Any) -> Any:
        """Wait for the end of a call that was made with `settle`; left early, it is withdrawn."""
        call.future = asyncio.get_running_loop().create_future()
        try:
            return await call.future
        finally:
            self.withdraw(call)
