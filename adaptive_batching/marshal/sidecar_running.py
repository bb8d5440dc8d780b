"""A sidecar at work: its listener, its batches, and how it ends without losing a request."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from yarl import URL

from adaptive_batching.core import Limits, PolicyLike
from adaptive_batching.dispatcher import Dispatcher, Observer
from adaptive_batching.marshal.listener import Listener
from adaptive_batching.marshal.passing import PassThrough
from adaptive_batching.marshal.sidecar import Sidecar, Terms
from adaptive_batching.wire.exchange import Format
from adaptive_batching.workers.upstream import Forwarded, Reply, Upstreams, new_session

_PASSING_CONNECTIONS = 1024  # at a time; streams may be open for long


class SidecarRunning:
    """Stands before some model servers that are alike until it is stopped.

    Args:
        servers: Their URLs, without a path.
        form: Their protocol.
        terms: What is asked of clients.
        concurrency: Batches at a time that each server takes.
        timeout: Seconds that a batch may take.
        max_answer: Bytes that the body of an answer to a batch may have.
        max_queue: Items that may wait.
        policy: When a batch leaves.
        idempotent: Whether a batch that failed may be sent again, in halves.
        observers: Told about every batch and request.

    Attributes:
        url: Where it listens, once it does.
        servers: What it stands before.
        dispatcher: Its `stats()` tell what happened.
    """

    def __init__(
        self,
        servers: Sequence[URL],
        form: Format[Any],
        terms: Terms,
        *,
        concurrency: int = 1,
        timeout: float = 60.0,
        max_answer: int = 256 * 2**20,
        max_queue: int = 1024,
        policy: PolicyLike = "cork",
        idempotent: bool = True,
        observers: Sequence[Observer] = (),
    ) -> None:
        self.url = ""
        self.servers = tuple(servers)
        self._form = form
        self._terms = terms
        self._upstreams = Upstreams(
            servers, concurrency=concurrency, timeout=timeout, max_answer=max_answer
        )
        self.dispatcher: Dispatcher[Forwarded, Reply] = Dispatcher(
            self._upstreams,
            Limits(terms.max_batch_size, terms.max_latency, max_queue),
            policy=policy,
            idempotent=idempotent,
            observers=observers,
            next_batch_first=True,
        )
        self._sidecar: Sidecar | None = None
        self._listener: Listener | None = None
        self._passing: PassThrough | None = None

    def announce_end(self) -> None:
        """Close each connection with its next answer."""
        if self._sidecar is not None:
            self._sidecar.draining = True

    async def start(self, host: str, port: int) -> None:
        """Listen, and be ready to pass on and to batch.

        Raises:
            ListenError: The port is taken, or the address is not ours.
        """
        await self.dispatcher.start()
        self._passing = PassThrough(
            new_session(_PASSING_CONNECTIONS), self.servers[0], self._terms.body_timeout
        )
        self._sidecar = Sidecar(
            self._form, self._upstreams, self.dispatcher, self._passing, self._terms
        )
        self._listener = Listener(self._sidecar)
        self.url = await self._listener.open(host, port)

    async def refresh(self) -> None:
        """There is nothing that SIGHUP would change."""

    async def stop(self, timeout: float) -> None:  # noqa: ASYNC109  a drain, not a wait
        """Listen no more, let batches leave at once, answer what comes.

        Args:
            timeout: Seconds after which what is left is refused.
        """
        self.announce_end()
        if self._listener is None or self._passing is None:
            await self.dispatcher.aclose(0.0)
            return
        deadline = time.monotonic() + timeout
        await self._listener.shut()
        self.dispatcher.flush()
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._listener.calm()
            await self.dispatcher.aclose(max(0.0, deadline - time.monotonic()))
        finally:
            await self._listener.aclose()
            await self._passing.aclose()
