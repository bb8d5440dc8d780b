"""Clients that send again when answered: plain sockets under one `epoll`.

A request costs about 10 µs here and 25 on an event loop, which would measure itself.
"""

import re
import select
import socket
from itertools import cycle
from time import perf_counter, process_time, sleep
from urllib.parse import urlsplit

from adaptive_batching.errors import UsageError
from adaptive_batching.load.plans import ClosedLoop, Throughput
from adaptive_batching.load.requests import Requests

_READ = 2**16  # bytes at a time
_PATIENCE = 60.0  # seconds without an event after which unanswered requests have failed
_PAUSE = 0.01  # seconds before the next attempt where a connection was refused
_LENGTH = re.compile(rb"\r\n[Cc]ontent-[Ll]ength: *(\d+)\r")
_CLOSES = b"onnection: close"


def closed_loop(plan: ClosedLoop) -> Throughput:
    """Keep every connection busy for the duration."""
    load = _Load(plan)
    begin, computed = perf_counter(), process_time()
    load.run(begin + plan.duration)
    duration = perf_counter() - begin
    busy = (process_time() - computed) / duration
    latencies = sorted(load.latencies)
    return Throughput(
        requests=len(latencies),
        failed=load.failed,
        duration=duration,
        p50=_quantile(latencies, 0.5),
        p99=_quantile(latencies, 0.99),
        busy=busy,
    )


class _Client:
    """A connection with one request under way."""

    def __init__(self, address: tuple[str, int], poll: "select.epoll") -> None:
        self.connection = socket.create_connection(address)
        self.connection.settimeout(0)
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sent = 0.0
        self.expected = b""
        self._poll = poll
        self._unsent = memoryview(b"")
        self._received = b""
        poll.register(self.connection, select.EPOLLIN)

    def send(self, request: bytes, expected: bytes) -> None:
        """Send a request whose answer contains what is expected."""
        self.expected = expected
        self.sent = perf_counter()
        sent = self.connection.send(request)
        if sent < len(request):
            self._unsent = memoryview(request)[sent:]
            self._poll.modify(self.connection, select.EPOLLIN | select.EPOLLOUT)

    def go_on(self) -> None:
        """Send what the socket did not take at once."""
        self._unsent = self._unsent[self.connection.send(self._unsent) :]
        if not self._unsent:
            self._poll.modify(self.connection, select.EPOLLIN)

    def receive(self) -> bytes:
        """The response, or nothing while it is not complete.

        Raises:
            ConnectionResetError: The server closed the connection.
            ValueError: The response does not say how long it is.
        """
        data = self.connection.recv(_READ)
        if not data:
            raise ConnectionResetError("closed before the answer")
        data = self._received + data
        end = data.find(b"\r\n\r\n") + 4
        length = _LENGTH.search(data, 0, end)
        if end >= 4 and length is None:
            raise ValueError("expected a response with a Content-Length, got one without")
        complete = length is not None and len(data) >= end + int(length[1])
        self._received = b"" if complete else data
        return data if complete else b""


class _Load:
    """All clients, and what became of their requests."""

    def __init__(self, plan: ClosedLoop) -> None:
        self.latencies: list[float] = []
        self.failed = 0
        parts = urlsplit(plan.url)
        self._address = (parts.hostname or "", parts.port or 80)
        self._connections = plan.connections
        self._requests = Requests(plan.url, plan.bodies, plan.headers, repeated=plan.repeated)
        self._turns = cycle(enumerate(plan.answers or [b""] * len(plan.bodies)))
        self._clients: dict[int, _Client] = {}
        self._until = 0.0

    def run(self, until: float) -> None:
        """Send until then, and wait for the last answers."""
        if not hasattr(select, "epoll"):
            raise UsageError("clients that send again when answered need epoll, which is Linux's")
        self._until = until
        with select.epoll() as poll:
            for _ in range(self._connections):
                self._connect(poll)
            while self._clients:
                events = poll.poll(_PATIENCE)
                for number, event in events:
                    self._turn(poll, number, event)
                if not events:
                    self.failed += len(self._clients)
                    break

    def _connect(self, poll: "select.epoll") -> None:
        """Put another client to work, unless the time is up."""
        while perf_counter() < self._until:
            try:
                client = _Client(self._address, poll)
                self._send(client)
            except OSError:
                self.failed += 1
                sleep(_PAUSE)
                continue
            self._clients[client.connection.fileno()] = client
            return

    def _send(self, client: _Client) -> None:
        body, answer = next(self._turns)
        client.send(self._requests.post(body), answer)

    def _turn(self, poll: "select.epoll", number: int, event: int) -> None:
        """Send the next request if the answer has come."""
        client = self._clients[number]
        try:
            if event & select.EPOLLOUT:
                client.go_on()
                return
            response = client.receive()
            if not response:
                return
            now = perf_counter()
            self.latencies.append(now - client.sent)
            self.failed += response[9:10] != b"2" or client.expected not in response
            if now < self._until and _CLOSES not in response:
                self._send(client)
                return
        except OSError:
            self.failed += 1
        client.connection.close()
        del self._clients[number]
        self._connect(poll)


def _quantile(ordered: list[float], share: float) -> float:
    return ordered[int(share * (len(ordered) - 1))] if ordered else 0.0
