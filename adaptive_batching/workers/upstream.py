"""Model servers over HTTP that know nothing of us: requests are merged, sent, and answers split.

aiohttp's client is told to do nothing of its own accord: no cookies from one client to the next,
no redirects to somewhere else, no proxy from the environment, no inflating, no sending twice.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from time import monotonic
from typing import Any

import aiohttp
from yarl import URL

from adaptive_batching.errors import UpstreamBroken, UpstreamBusy, UpstreamLost, WorkerTimeout
from adaptive_batching.units import format_duration
from adaptive_batching.wire.exchange import Format, Message, Unsplittable
from adaptive_batching.workers.interface import Health

_BUSY = frozenset({429, 503})
_CONNECT_TIMEOUT = 2.0  # seconds; the server stands beside us
_IDLE = 4.0  # seconds; less than the 5 after which uvicorn closes a connection that it keeps alive
_CHUNK = 2**18  # bytes
_REMEMBERED = 1024  # batch keys that are not merged; a client may make up any number of them

_log = logging.getLogger("adaptive_batching.upstream")


@dataclass(frozen=True, slots=True)
class Forwarded:
    """A client's request, or a piece of one, on its way into a batch.

    Members of one batch have the same format, target and headers: they are their batch key.

    Attributes:
        form: The protocol.
        share: Its items.
        method: Of HTTP.
        target: Path and query, as they came.
        headers: What the server is told of the client; nothing that another may not share.
    """

    form: Format[Any]
    share: Any
    method: str
    target: str
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> Hashable:
        """What has to be equal for two to be sent together."""
        headers = tuple(sorted(self.headers.items()))
        return self.method, self.target, headers, self.share.key


@dataclass(frozen=True, slots=True)
class Reply:
    """What a server answered to one request.

    Attributes:
        status: Of HTTP.
        message: The body, and the headers that are about it or about trying again.
        batch_id: Of the batch that the request was in; counted from 1.
        batch_size: Items in that batch.
        seconds: That the server took.
    """

    status: int
    message: Message
    batch_id: int
    batch_size: int
    seconds: float


class UpstreamRefusal(Exception):
    """The server refused a batch; alone, each of its members might be answered.

    Attributes:
        reply: What it said.
    """

    def __init__(self, reply: Reply) -> None:
        super().__init__(f"the server answered {reply.status} to a batch of {reply.batch_size}")
        self.reply = reply


class Upstreams:
    """Sends batches to some servers that are alike; each takes so many at a time.

    Args:
        servers: Their URLs, without a path.
        concurrency: Batches at a time that each server takes.
        timeout: Seconds that a batch may take.
        max_answer: Bytes that the body of an answer may have.
    """

    def __init__(
        self, servers: Sequence[URL], *, concurrency: int, timeout: float, max_answer: int
    ) -> None:
        self._servers = tuple(servers)
        self._places = len(servers) * concurrency
        self._timeout = timeout
        self._max_answer = max_answer
        self._batch_ids = count(1)
        self._unmergeable: OrderedDict[Hashable, None] = OrderedDict()
        self._session: aiohttp.ClientSession | None = None

    def __repr__(self) -> str:
        return f"<Upstreams {' '.join(map(str, self._servers))}>"

    @property
    def health(self) -> Health:
        """As many workers as batches may be under way."""
        living = range(self._places if self._session else 0)
        return Health(frozenset(living), self._places)

    async def start(self, on_change: Callable[[], None]) -> None:
        """Be ready to connect; see `Workers.start`. Whether the servers are there, batches show."""
        self._session = new_session(self._places)
        on_change()

    async def run(self, items: list[Forwarded], worker: int, /) -> list[Reply]:
        """Send one batch to the server of a place; see `Workers.run`.

        Raises:
            UpstreamRefusal: The server answered with an error.
            UpstreamBusy: It answered that it has no time.
            UpstreamLost: It can't be reached, or hung up.
            UpstreamBroken: What it answered is not for so many items.
            WorkerTimeout: It did not answer in time.
        """
        first, shares = items[0], [item.share for item in items]
        size = sum(share.size for share in shares)
        server = self._servers[worker % len(self._servers)]
        begin = monotonic()
        try:
            async with asyncio.timeout(self._timeout):
                status, answer = await self._send(server, first, first.form.merge(shares))
        except TimeoutError:
            waited = format_duration(self._timeout)
            raise WorkerTimeout(f"{server} did not answer a batch of {size} in {waited}") from None
        except aiohttp.ClientError as error:
            msg = f"{server} did not answer a batch of {size}: {type(error).__name__}: {error}"
            raise UpstreamLost(msg) from error
        taken, batch_id = monotonic() - begin, next(self._batch_ids)
        if status in _BUSY:
            raise UpstreamBusy(Reply(status, answer, batch_id, size, taken))
        if status >= 300:
            raise UpstreamRefusal(Reply(status, answer, batch_id, size, taken))
        # what is answered to one alone is for him, whatever it is
        parts = [answer] if len(items) == 1 else self._split(first, shares, answer)
        return [Reply(status, part, batch_id, size, taken) for part in parts]

    def mergeable(self, key: Hashable) -> bool:
        """Whether no batch of that key has been answered with what can't be shared out."""
        return key not in self._unmergeable

    async def aclose(self) -> None:
        """Close all connections; see `Workers.aclose`."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _split(self, first: Forwarded, shares: list[Any], answer: Message) -> list[Message]:
        try:
            return first.form.split(shares, answer)
        except Unsplittable as error:
            self._unmergeable[first.key] = None
            if len(self._unmergeable) > _REMEMBERED:
                self._unmergeable.popitem(last=False)
            _log.warning(
                "%s: requests like this are sent alone from now on: %s", first.target, error
            )
            raise UpstreamBroken(f"a batch of {len(shares)} requests: {error}") from error

    async def _send(self, server: URL, first: Forwarded, message: Message) -> tuple[int, Message]:
        assert self._session is not None
        url = URL(f"{server}{first.target}", encoded=True)
        headers = {**first.headers, **message.headers, "accept-encoding": "identity"}
        sending = self._session.request(first.method, url, data=message.body, headers=headers)
        async with sending as response:
            body = await _bounded(response, self._max_answer)
        about = {name.lower(): value for name, value in response.headers.items()}
        if about.pop("content-encoding", "identity") != "identity":
            raise UpstreamBroken(f"{server} answered in a coding that it was asked not to use")
        return response.status, Message(body, about)


def new_session(connections: int) -> aiohttp.ClientSession:
    """A client that does nothing of its own accord; for servers that stand beside us."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=connections, keepalive_timeout=_IDLE),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        trust_env=False,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_TIMEOUT),
        skip_auto_headers=("User-Agent", "Accept", "Content-Type"),
    )


async def _bounded(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """The whole body, as long as it is not too long.

    Raises:
        UpstreamBroken: It is.
    """
    if (response.content_length or 0) <= limit:
        body = bytearray()
        async for chunk in response.content.iter_chunked(_CHUNK):
            body += chunk
            if len(body) > limit:
                break
        else:
            return bytes(body)
    response.close()
    raise UpstreamBroken(
        f"expected an answer of at most {limit} bytes from {response.url.origin()}"
    )
