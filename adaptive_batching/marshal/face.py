"""What speaks HTTP for a service: its own process, or several."""

import os
import socket
import ssl
from collections import Counter
from typing import Protocol

from adaptive_batching.marshal.listener import Listener
from adaptive_batching.marshal.marshal import Marshal
from adaptive_batching.marshal.traced import Served


class Face(Protocol):
    """Takes requests in and gives answers out.

    Attributes:
        unrouted: Answers by status to requests that found no endpoint.
    """

    unrouted: Counter[int]

    @property
    def draining(self) -> bool:
        """Whether clients are told to go elsewhere."""
        ...

    @property
    def held_bytes(self) -> int:
        """Bytes of the bodies that wait for their answers."""
        ...

    @property
    def dropped(self) -> int:
        """Connections that were one too many."""
        ...

    @property
    def pids(self) -> list[int]:
        """The processes that speak HTTP."""
        ...

    async def open(
        self,
        host: str,
        port: int,
        bound: socket.socket | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> str:
        """Accept connections from now on, and return the URL.

        Raises:
            ListenError: The port is taken, or the address is not ours.
        """
        ...

    def drain(self) -> None:
        """Tell clients to go elsewhere; what comes is answered all the same."""
        ...

    def retuned(self) -> None:
        """The lanes have other limits."""
        ...

    async def shut(self) -> None:
        """Accept no more connections; requests still come on those that are open."""
        ...

    async def calm(self) -> None:
        """Wait until nothing is being answered and nothing more comes."""
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...


class OwnFace:
    """The process of the service itself speaks HTTP.

    Args:
        marshal: Answers.
        answering: The same, or who goes before it.
    """

    def __init__(self, marshal: Marshal, answering: Served) -> None:
        self.unrouted = marshal.unrouted
        self._marshal = marshal
        self._listener = listener = Listener(answering, fast_path=answering)
        self.open, self.shut = listener.open, listener.shut
        self.calm, self.aclose = listener.calm, listener.aclose

    @property
    def draining(self) -> bool:
        """Whether clients are told to go elsewhere."""
        return self._marshal.draining

    @property
    def held_bytes(self) -> int:
        """Bytes of the bodies that wait for their answers."""
        return self._marshal.door.held_bytes

    @property
    def dropped(self) -> int:
        """Connections that were one too many."""
        return self._listener.dropped

    @property
    def pids(self) -> list[int]:
        """This one."""
        return [os.getpid()]

    def drain(self) -> None:
        """Tell clients to go elsewhere; what comes is answered all the same."""
        self._marshal.draining = True

    def retuned(self) -> None:
        """It looks at the lanes themselves."""
