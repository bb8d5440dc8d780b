"""What a Triton says of each model: whether it takes batches, and how large they may be.

`GET /v2/models/M/config` is its extension `model_configuration` of the Open Inference Protocol.
Until it has answered, no two requests for the model share a batch: without a batch dimension their
rows would be taken for those of one request.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from math import inf
from time import monotonic
from typing import Annotated, TypeAlias, TypeVar
from urllib.parse import unquote

import msgspec
from multidict import CIMultiDict

from adaptive_batching.errors import BatchingError, UpstreamBroken, UpstreamTooLarge
from adaptive_batching.marshal.sidecar.upstream.addresses import Address
from adaptive_batching.marshal.sidecar.upstream.client import Client
from adaptive_batching.wire.exchange import Message

_TIMEOUT = 2.0  # seconds
_AGAIN = 1.0  # seconds after which a server that has not said it is asked again
_MAX_BYTES = 2**22
_REMEMBERED = 1024  # paths; a client may make up any number of them
_LOADS = re.compile(r"/v2/repository/models/([^/]+)/(?:load|unload)")
_MODEL = re.compile(r"/v2/models/([^/]+)(?:/versions/[^/]+)?/infer")
_NOT_SAID = frozenset({401, 403, 407, 429, 500, 502, 503, 504})
_MAY_SAY = "model_configuration"

Headers: TypeAlias = Iterable[tuple[str, str]]
T = TypeVar("T")
_log = logging.getLogger("adaptive_batching.upstream")


class _Policy(msgspec.Struct):
    decoupled: bool = False


class _Configuration(msgspec.Struct):
    max_batch_size: Annotated[int, msgspec.Meta(ge=0)]
    dynamic_batching: dict[str, object] | None = None
    sequence_batching: dict[str, object] | None = None
    model_transaction_policy: _Policy = msgspec.field(default_factory=_Policy)

    @property
    def objection(self) -> str:
        """Why requests can't be merged; empty if they can."""
        if not self.max_batch_size:
            return "max_batch_size: 0, so that the first dimension is not the batch"
        if self.sequence_batching is not None:
            return "sequence_batching"
        return "decoupled" if self.model_transaction_policy.decoupled else ""


class _Server(msgspec.Struct):
    extensions: list[str] = []


class UpstreamModels:
    """How large batches may be for each model of some servers that are alike.

    Args:
        client: Asks.
        find: Says which server to ask.
        asks: Whether the servers' protocol has models that can be asked for.
    """

    def __init__(self, client: Client, find: Callable[[], Address], *, asks: bool) -> None:
        self._client = client
        self._find = find
        self._asks = asks
        self._known: dict[str, float] = {}
        self._again: dict[str, float] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._loading: list[str] = []
        self._complained = False

    def most(self, target: str) -> float | None:
        """Items that a batch for a path and query may have.

        Returns:
            0 for a model whose requests are passed on, `inf` if there is no bound, and None while
            that isn't known: `learn` asks.
        """
        if not self._asks:
            return inf
        path = target.partition("?")[0]
        if self._loading and _model(path) in self._loading:
            return None
        return self._known.get(path)

    async def learn(self, target: str, headers: Headers, due: float) -> None:
        """Ask a server, once for all that wait; what it did not say stays unknown for a while.

        Args:
            target: A path and query.
            headers: What the server is told of a client, such as its credentials.
            due: Until when to wait for the answer (monotonic seconds).
        """
        path = target.partition("?")[0]
        now = monotonic()
        if self._again.get(path, 0.0) > now or _model(path) in self._loading:
            return
        asking = self._asking.get(path)
        if asking is None:
            asking = asyncio.create_task(self._ask(path, headers))
            self._asking[path] = asking
            asking.add_done_callback(lambda _: self._asking.pop(path, None))
        await asyncio.wait({asking}, timeout=max(0.0, due - now))

    @contextmanager
    def loading(self, method: str, target: str) -> Iterator[None]:
        """While a request is passed on that may load a model: nothing is known of it meanwhile.

        Afterwards all are asked for anew, for an ensemble is loaded with its members.
        """
        found = _LOADS.fullmatch(target.partition("?")[0])
        if not self._asks or found is None or method != "POST":
            yield
            return
        name = unquote(found[1])
        self._loading.append(name)
        try:
            yield
        finally:
            self._loading.remove(name)
            self.forget()

    def forget(self) -> None:
        """Ask for all models anew: the servers may have others now."""
        self._known.clear()
        for asking in self._asking.values():
            asking.cancel()

    async def aclose(self) -> None:
        """Ask no more."""
        tasks = list(self._asking.values())
        self.forget()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask(self, path: str, headers: Headers) -> None:
        try:
            most = await self._answer(path, headers)
        except BatchingError:
            _remember(self._again, path, monotonic() + _AGAIN)
        else:
            _remember(self._known, path, most)

    async def _answer(self, path: str, headers: Headers) -> float:
        """Items that a batch may have.

        Raises:
            BatchingError: The server does not say so now.
        """
        server = self._find()
        about = path.removesuffix("/infer") + "/config"
        configuration = await self._get(server, about, headers, _Configuration)
        if configuration is not None:
            self._complained = False
            _tell(server, path, configuration)
            return 0 if configuration.objection else configuration.max_batch_size
        told = await self._get(server, "/v2", headers, _Server)
        if told is not None and _MAY_SAY in told.extensions:
            raise UpstreamBroken("the server has no configuration of that model")
        return inf

    async def _get(self, server: Address, path: str, headers: Headers, kind: type[T]) -> T | None:
        """What the server says there; None if it says something else."""
        try:
            status, answer = await self._client.send(
                server, "GET", path, Message(b""), CIMultiDict(headers), _MAX_BYTES, _TIMEOUT
            )
        except (UpstreamBroken, UpstreamTooLarge):
            return None
        if status in _NOT_SAID:
            self._complain(server, path, status)
            raise UpstreamBroken(f"{server.name} answered {status}")
        try:
            return msgspec.json.decode(answer.body, type=kind) if status == 200 else None
        except (ValueError, RecursionError):
            return None

    def _complain(self, server: Address, path: str, status: int) -> None:
        """Log, once until a model is known, why none of its requests share a batch."""
        if not self._complained:
            self._complained = True
            _log.warning(
                "%s answered %d to GET %.200r: until it says whether the model takes batches, each"
                " request is sent alone",
                server.name,
                status,
                path,
            )


def _model(path: str) -> str | None:
    found = _MODEL.fullmatch(path)
    return None if found is None else unquote(found[1])


def _remember(table: dict[str, float], path: str, value: float) -> None:
    table[path] = value
    if len(table) > _REMEMBERED:
        del table[next(iter(table))]


def _tell(server: Address, path: str, configuration: _Configuration) -> None:
    name = _model(path)
    if configuration.objection:
        _log.warning(
            "%s: requests for %.200r are passed on and share no batches: its configuration says %s",
            server.name,
            name,
            configuration.objection,
        )
    elif configuration.dynamic_batching is not None:
        _log.warning(
            "%s batches %.200r itself (dynamic_batching): requests wait for company twice",
            server.name,
            name,
        )
