"""A model behind HTTP: which handler answers which path, and within which limits."""

from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Hashable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from adaptive_batching.allowed_sizes import Pad
from adaptive_batching.asked_limits import make_asked
from adaptive_batching.core import PolicyLike, make_policy
from adaptive_batching.dispatcher import NO_OBSERVERS, Observer
from adaptive_batching.keywords import names_keywords
from adaptive_batching.marshal.checks import check_cost, check_key, check_shared, positive_seconds
from adaptive_batching.marshal.service.costs import function_of
from adaptive_batching.marshal.service.description import ServiceDescription
from adaptive_batching.marshal.service.endpoints import Endpoint, PipelineEndpoint, largest_body
from adaptive_batching.marshal.service.in_process import InProcessEndpoint
from adaptive_batching.marshal.service.make_endpoints import (
    AskedBodies,
    AskedWorkers,
    make_endpoint,
    make_pipeline_endpoint,
)
from adaptive_batching.marshal.service.shared_workers import SharedWorkers
from adaptive_batching.payloads.contract import Declaration
from adaptive_batching.pipeline import Pipeline
from adaptive_batching.units import Duration, check_flags
from adaptive_batching.workers.pinning import pinned
from adaptive_batching.workers.placement import Placement

# What serves is imported where serving starts: a worker process imports the module of its handler,
# and with it this one, but never serves, and aiohttp doubles the time that it takes to start.
if TYPE_CHECKING:
    from aiohttp import web

    from adaptive_batching.marshal.http.tracing import Tracer
    from adaptive_batching.marshal.service.mounted.asgi import AsgiService, Message, Receive, Send
    from adaptive_batching.marshal.service.runner import Running

H = TypeVar("H", bound=Callable[..., Any])


@names_keywords
class Service:
    """Endpoints that batch, served over HTTP: one item comes in, its own result goes out::

        service = Service()

        @service.endpoint("/predict", max_latency=0.1)
        class Digits:
            def __init__(self):
                self.model = load_model()

            def __call__(self, images):
                return self.model.predict(images)

    Start it with `adaptive-batching serve module:service`, or with `running` in a program. It is an
    ASGI application as well: `uvicorn module:service`, or `application.mount("/models", service)`.
    Where it runs, `await service["/predict"](item)` calls an endpoint from the same program.

    Args:
        name: What it is called in messages.
        max_in_flight: Requests at a time; more are refused as overloaded.
        max_queue_bytes: Bytes of all bodies that arrive, wait and run; a request whose body would
            be beyond it is refused, with 503.
        body_timeout: Seconds that a request's body may take to arrive, or a text such as `"10s"`.
        drain_timeout: Seconds that the last requests have when it ends.
        documented: Whether it describes itself to clients, at `/openapi.json` and `/docs`.

    Raises:
        TypeError: One of them is no number.
        ValueError: One of them is not positive, or no duration.

    Attributes:
        description: Its endpoints and limits, as what serves it reads them.
    """

    def __init__(
        self,
        name: str = "service",
        *,
        max_in_flight: int = 4096,
        max_queue_bytes: int = 2**30,
        body_timeout: Duration = 10.0,
        drain_timeout: Duration = 30.0,
        documented: bool = True,
    ) -> None:
        self.description = ServiceDescription(
            name,
            max_in_flight,
            max_queue_bytes,
            positive_seconds("body_timeout", body_timeout),
            positive_seconds("drain_timeout", drain_timeout),
            documented,
        )
        self._in_process: dict[str, InProcessEndpoint] = {}
        self._asgi: AsgiService | None = None

    def __repr__(self) -> str:
        paths = " ".join(self.description.endpoints) or "without endpoints"
        return f"<Service {self.description.name} {paths}>"

    def __iter__(self) -> Iterator[Endpoint | PipelineEndpoint]:
        return iter(self.description)

    def __getitem__(self, path: str) -> InProcessEndpoint:
        """What calls an endpoint's handler from the program that runs the service.

        Raises:
            KeyError: There is no such endpoint.
        """
        endpoint = self.description.endpoints.get(path)
        if endpoint is None:
            known = ", ".join(self.description.endpoints) or "none yet"
            raise KeyError(f"path: expected that of an endpoint ({known}), got {path!r}")
        if path not in self._in_process:
            made = InProcessEndpoint(endpoint, self.description.at_work)
            self._in_process[path] = made
        return self._in_process[path]

    async def __call__(self, scope: "Message", receive: "Receive", send: "Send") -> None:
        """Answer an ASGI server, which starts and stops the workers by its lifespan protocol.

        Where the service is mounted in an application whose framework does not tell mounted ones
        of its lifespan (Starlette and FastAPI don't), that application's lifespan has to start
        the workers: `async with service.running_workers():`.
        """
        if scope["type"] == "lifespan" or self._asgi is None:
            self._asgi = _served_by_asgi(self.description)
        await self._asgi(scope, receive, send)

    @asynccontextmanager
    async def running_workers(self) -> AsyncIterator[None]:
        """Have workers while the block runs: for the lifespan of an application that mounts it.

        Raises:
            WorkerStartError: A worker could not load its handler.
        """
        self._asgi = _served_by_asgi(self.description)
        async with self._asgi.running_workers():
            yield

    @names_keywords
    def endpoint(
        self,
        path: str,
        *,
        max_latency: Duration | None = None,
        max_batch_size: int | None = None,
        workers: int | str | Placement | SharedWorkers = 1,
        cpus: Sequence[int | Sequence[int]] | None = None,
        policy: PolicyLike = "cork",
        max_queue: int = 1024,
        max_body: int | None = None,
        idempotent: bool = False,
        item: Any = None,
        result: Any = None,
        codec: str | Sequence[str] = "json",
        result_codec: str | Sequence[str] | None = None,
        examples: Sequence[Any] | None = None,
        key: str | Callable[[Any], Hashable] | None = None,
        many: bool = False,
        init_args: Mapping[str, Any] | None = None,
        cost: Literal["bytes"] | Callable[[Any], float] | None = None,
        padded: bool = False,
        max_batch_cost: float | None = None,
        sizes: Sequence[int] | None = None,
        pad: Pad | None = None,
        pad_costs: Sequence[float] | None = None,
    ) -> Callable[[H], H]:
        """Serve the decorated handler, which stays as it is.

        Args:
            path: Where, such as `/predict`.
            max_latency: Seconds from a request's arrival to its answer, or a text such as
                `"100ms"`; what can't make it is
                refused early, with 503. None refuses nothing for lateness.
            max_batch_size: Items in one batch at the most: 64, or the largest of `sizes`.
            workers: How many batches run at a time, or where. A number means processes for a class,
                which is built once in each; threads for a function; tasks for an async function.
                `"ray:4"` means actors; `"unix:/run/model.sock"` workers that connect there. With
                `SharedWorkers` the handler is built in workers that other endpoints use as well.
            cpus: The core, or the list of cores, of each process.
            policy: When a batch leaves: `cork`, `greedy`, `window:2ms` or an object.
            max_queue: Items that may wait; more are refused, with 503.
            max_body: Bytes that one item's body may have; more is refused, with 413. By default
                8 MiB, or 1 MiB where `key` or `cost` is a function that takes the item.
            idempotent: Whether running an item twice is as good as once. Then a batch that raises,
                or loses its worker, runs again in parts: only the request to blame gets the error.
            item: The type of an item, which is validated in the worker; what is not of it is
                refused, with 422. None takes it from the handler's annotations, Any takes anything.
            result: The type of a result; one that is not of it is the handler's mistake, a 500.
            codec: How items come: `json`, `msgpack`, `raw` (bytes or str), `npy` (an array),
                `multipart` (a form, whose parts are the fields of an item), or several, of which
                clients choose by `Content-Type`.
            result_codec: How results go, chosen by `Accept`; by default, as items come, and as JSON
                for forms.
            examples: Items for the documentation, and with which each worker warms up before it is
                ready, in batches of `sizes`, else of 1, 2, 4 … and `max_batch_size`. The first
                request is then decided by what they took. None takes the handler's own `examples`,
                if it has any.
            key: Only items with equal keys share a batch. The name of a header, or a function that
                takes an item and returns its key. The function runs in the process that answers
                all connections, and each body is read there a second time.
            many: Whether a request brings a list of items, at most `max_queue`, and is answered
                with the list of their results. They join batches as those of single requests do.
            init_args: Keyword arguments with which each worker builds a class.
            cost: What an item costs, where items don't cost the same: `"bytes"` for the length of
                its body, or a function that returns a number of 0 or more. It takes the item, and
                then each body is read a second time, as for `key`; or, if its parameter is
                annotated `bytes`, the body as it is.
            padded: Whether each item of a batch takes as long as the costliest one; see `batched`.
            max_batch_cost: No batch costs more than that; an item that costs more alone is refused,
                with 413. None for no limit.
            sizes: Items of the batches that the handler takes, if not of any size; see `batched`.
            pad: What fills other batches up, by a function of their last item, as the handler gets
                it; see `batched`.
            pad_costs: Costs to which the handler pads its items; see `batched`.

        Raises:
            TypeError: The handler can't be called with a list, or something is of a wrong type,
                or a type can't be validated.
            ValueError: Something is out of its range; the message says what was expected.
        """
        most = largest_body(max_body, key, cost)
        self.description.check(path, most)
        make_policy(policy)
        if isinstance(workers, SharedWorkers):
            check_shared(policy, cpus, key)
        check_key(key)
        check_cost(cost)
        check_flags(many=many, idempotent=idempotent)
        asked = make_asked(
            max_batch_size,
            max_latency,
            max_queue,
            cost=function_of(cost),
            padded=padded,
            max_batch_cost=max_batch_cost,
            sizes=sizes,
            pad=pad,
            pad_costs=pad_costs,
        )
        bodies = AskedBodies(
            Declaration(item, result, codec, result_codec), most, key, many, cost, examples
        )
        placed = AskedWorkers(workers, cpus, policy, init_args, pad)

        def register(handler: H) -> H:
            made = make_endpoint(path, handler, asked, bodies, placed, idempotent=idempotent)
            self.description.endpoints[path] = made
            return handler

        return register

    @names_keywords
    def add_pipeline(
        self,
        path: str,
        pipeline: Pipeline[Any, Any],
        *,
        max_body: int | None = None,
        item: Any = None,
        result: Any = None,
        codec: str = "json",
        result_codec: str | None = None,
        key: str | Callable[[Any], Hashable] | None = None,
        many: bool = False,
    ) -> None:
        """Serve a pipeline: what one body holds goes through its stages.

        Its first stage's handler says of which type items are, its last one's results, unless
        `item` and `result` do; the examples are those of the first stage.

        Args:
            path: Where, such as `/predict`.
            pipeline: Its stages and its `max_latency`; it stays as it is, and need not be started.
            max_body: Bytes that one item's body may have; more is refused, with 413. By default
                8 MiB, or 1 MiB where `key` is a function.
            item: The type of an item; see `endpoint`.
            result: The type of a result.
            codec: How items come: `json`, `msgpack`, `raw` or `npy`.
            result_codec: How results go; by default, as items come.
            key: Only items with equal keys share a batch, in every stage; see `endpoint`.
            many: Whether a request brings a list of items, at most as many as the first stage
                holds, and is answered with the list of their results; see `endpoint`.

        Raises:
            TypeError: It is no pipeline, or something is of a wrong type.
            ValueError: Something is out of its range; the message says what was expected.
        """
        most = largest_body(max_body, key)
        self.description.check(path, most)
        check_key(key)
        if not isinstance(pipeline, Pipeline):
            raise TypeError(f"pipeline: expected Pipeline([...]), got {pipeline!r}")
        bodies = AskedBodies(Declaration(item, result, codec, result_codec), most, key, many)
        self.description.endpoints[path] = make_pipeline_endpoint(path, pipeline, bodies)

    @asynccontextmanager
    async def running(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        admin: tuple[str, int] | None = None,
        observers: Mapping[str, Sequence[Observer]] = NO_OBSERVERS,
        tracer: "Tracer | None" = None,
        cpus: Collection[int] | None = None,
    ) -> "AsyncIterator[Running]":
        """Serve while the block runs; `running.url` says where.

        Args:
            host: The address to listen on.
            port: The port; 0 takes a free one.
            admin: Host and port of the pages of operators, such as `("127.0.0.1", 0)`. Where they
                have one, clients don't see `/metrics`.
            observers: By path, what is told about its batches and requests: a `Recorder`. Those of
                a pipeline's stages by `/path:Stage`.
            tracer: Makes spans of requests and batches: `instrumentation.tracing.Tracing`.
            cpus: The cores that this process keeps to meanwhile; workers have their own.

        Raises:
            WorkerStartError: A worker could not load its handler.
            ListenError: A port is taken, or the address is not ours.
            ValueError: The machine does not have the cores.
        """
        from adaptive_batching.marshal.service.runner import Running  # noqa: PLC0415

        running = Running(self.description, admin=admin, observers=observers, tracer=tracer)
        with pinned(cpus):
            try:
                await running.start(host, port)
                yield running
            finally:
                await running.stop(self.description.drain_timeout)

    def as_aiohttp(self) -> "web.Application":
        """The endpoints as an application of aiohttp: `app.add_subapp("/models", …)`.

        Its workers start and stop with it, or with the application that it is a part of.
        """
        from adaptive_batching.marshal.service.mounted.aiohttp_application import (  # noqa: PLC0415
            make_application,
        )

        return make_application(self.description)


def _served_by_asgi(description: ServiceDescription) -> "AsgiService":
    from adaptive_batching.marshal.service.mounted.asgi import AsgiService  # noqa: PLC0415

    return AsgiService(description)
