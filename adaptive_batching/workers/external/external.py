"""Workers that we did not start: they connect to a Unix socket and pull batches."""

import asyncio
import logging
import os
from collections.abc import Callable, Collection, Hashable, Sequence
from itertools import count
from typing import Any

from adaptive_batching.errors import WorkerLost
from adaptive_batching.workers.external.connection import WorkerConnection, WorkerTerms
from adaptive_batching.workers.external.named_socket import NamedSocket
from adaptive_batching.workers.interface import Health

_Call = Callable[[list[Any]], Any]
_MOST = 20  # lines in a window: workers that come and go all the time must not fill the disk
_WINDOW = 1.0  # seconds

_log = logging.getLogger("adaptive_batching.workers")


class ConnectedWorkers:
    """Listens, and runs batches on workers that are connected and idle.

    Workers may come, go and differ in speed. Each has the place of its index while it is connected;
    one that comes back under its name gets its old place if that is free.

    Args:
        path: The name of the socket.
        terms: What every worker has to keep to.
        max_workers: Workers at a time; more are turned away.
        uids: Users whose workers may connect, beside our own and root's.
        wrap: Takes an async function of a list of items, and returns what to await instead.
    """

    def __init__(
        self,
        path: str,
        terms: WorkerTerms,
        *,
        max_workers: int,
        uids: Collection[int] = (),
        wrap: Callable[[_Call], _Call] | None = None,
    ) -> None:
        self._path = path
        self._terms = terms
        self._max_workers = max_workers
        self._uids = uids
        self._wrap = wrap
        self._socket: NamedSocket | None = None
        self._server: asyncio.Server | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._connected: set[WorkerConnection] = set()
        self._places: dict[int, _Place] = {}
        self._serial = count()
        self._on_change: Callable[[], None] = lambda: None
        self._log = ConnectionLog(path)

    def __repr__(self) -> str:
        return f"<ConnectedWorkers {self._path} alive={self.health.alive}>"

    @property
    def health(self) -> Health:
        """The workers that have asked for batches; how many there should be is not known."""
        living = {index: each for index, each in self._places.items() if each.connection.alive}
        identities = {index: each.identity for index, each in living.items()}
        return Health(frozenset(living), None, identities=identities)

    async def start(self, on_change: Callable[[], None]) -> None:
        """Listen; see `Workers.start`. No worker is connected yet when it returns."""
        loop = asyncio.get_running_loop()
        self._socket = NamedSocket(self._path, shared=bool(self._uids))
        self._on_change = on_change
        self._server = await loop.create_unix_server(self._connection, sock=self._socket.socket)
        self._keeper = loop.create_task(self._keep(), name=f"keeper of {self._path}")
        on_change()

    async def run(self, items: list[Any], worker: int, /) -> Sequence[Any]:
        """Run one batch; see `Workers.run`."""
        place = self._places[worker]
        if place.connection.gone:
            msg = f"{place.connection} had gone before it got its batch"
            raise WorkerLost(msg)
        return await place.call(items)  # type: ignore[no-any-return]

    async def aclose(self) -> None:
        """Hang up on all workers and remove the socket; see `Workers.aclose`."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None and keeper.get_loop() is asyncio.get_running_loop():
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)

    # --------------------------------------------------------------------------- which are there

    async def _keep(self) -> None:
        """Whatever ends the loop cancels this, and leaves neither a socket nor a connection."""
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            assert self._server is not None
            assert self._socket is not None
            self._server.close()
            self._socket.close()
            for connection in list(self._connected):
                connection.hang_up()
            self._log.sum_up()

    def _connection(self) -> WorkerConnection:
        return WorkerConnection(self._terms, self._come, self._changed, self._gone)

    def _come(self, connection: WorkerConnection) -> str | None:
        """Let a worker in: at first to say hello, then to take batches."""
        if connection in self._connected:
            return self._seat(connection)
        self._connected.add(connection)
        if connection.peer.uid not in {os.geteuid(), 0, *self._uids}:
            return f"runs as user {connection.peer.uid}, which may not connect"
        if len(self._connected) > self._max_workers:
            return f"is one too many: {self._max_workers} may be connected"
        return None

    def _seat(self, connection: WorkerConnection) -> str | None:
        places, name = self._places, connection.name
        free = [i for i in range(self._max_workers) if i not in places or places[i].free]
        if not free:
            return f"is one too many: {self._max_workers} may be connected"
        identity = name or next(self._serial)
        known = [i for i in free if i in places and places[i].identity == identity]
        index = (known or free)[0]
        call = self._wrap(connection.run) if self._wrap else connection.run
        places[index] = _Place(connection, identity, call)
        self._log.enter(logging.INFO, f"{connection} is worker {index}")
        self._on_change()
        return None

    def _gone(self, connection: WorkerConnection, reason: str | None) -> None:
        self._connected.discard(connection)
        if reason is None:
            self._log.enter(logging.INFO, f"{connection} has gone")
        else:
            self._log.enter(logging.WARNING, f"{connection} was hung up on: it {reason}")
        self._changed()

    def _changed(self) -> None:
        self._on_change()


class _Place:
    """An index, and the worker that has it or had it last."""

    __slots__ = ("call", "connection", "identity")

    def __init__(self, connection: WorkerConnection, identity: Hashable, call: _Call) -> None:
        self.connection = connection
        self.identity = identity
        self.call = call

    @property
    def free(self) -> bool:
        return self.connection.gone and not self.connection.busy


class ConnectionLog:
    """Enters what happens at a socket; of a flood the beginning, and how many more there were.

    Args:
        name: Of the socket.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._entered = 0
        self._omitted = 0
        self._window: asyncio.TimerHandle | None = None

    def enter(self, level: int, event: str) -> None:
        """Say what happened."""
        if self._window is None:
            self._window = asyncio.get_running_loop().call_later(_WINDOW, self.sum_up)
        if self._entered < _MOST:
            self._entered += 1
            _log.log(level, "%s: %s", self._name, event)
        else:
            self._omitted += 1

    def sum_up(self) -> None:
        """Say how much more happened than was entered, and begin anew."""
        if self._window is not None:
            self._window.cancel()
            self._window = None
        if self._omitted:
            _log.warning("%s: workers came and went %d more times", self._name, self._omitted)
        self._entered = self._omitted = 0
