"""How much is read from a connection at once."""

import asyncio
import socket

import pytest

from adaptive_batching.marshal.http.read_size import read_freely, read_little


class Sizes(asyncio.Protocol):
    """Notes how much is read each time."""

    def __init__(self):
        self.noted = []
        self.first = asyncio.get_running_loop().create_future()

    def data_received(self, data):
        self.noted.append(len(data))
        if len(self.noted) == 1:
            self.first.set_result(None)


@pytest.fixture
async def connected():
    """A connection on which nothing is read yet, and one end of it to write to."""
    far, near = socket.socketpair()
    far.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**20)
    transport, sizes = await asyncio.get_running_loop().connect_accepted_socket(Sizes, near)
    transport.pause_reading()
    yield far, transport, sizes
    transport.close()
    far.close()


async def test_little_is_read_until_somebody_waits_for_it(connected):
    """A flood of connections is read before any of its requests has its turn and is counted."""
    far, transport, sizes = connected
    read_little(transport)
    far.sendall(bytes(200_000))
    transport.resume_reading()
    await sizes.first
    assert sizes.noted == [2**17]


async def test_much_is_read_while_somebody_waits_for_it(connected):
    """Each look into the kernel costs as much as the copy of a page."""
    far, transport, sizes = connected
    read_little(transport)
    far.sendall(bytes(200_000))
    with read_freely(transport):
        transport.resume_reading()
        await sizes.first
    assert sizes.noted == [200_000]


async def test_a_connection_that_is_not_ours_reads_as_before(connected):
    """Handlers may be mounted in somebody else's application."""
    _, transport, _ = connected
    own = transport.max_size
    with read_freely(transport):
        pass
    assert transport.max_size == own


async def test_a_connection_that_can_not_be_told_reads_as_it_does():
    """Those of TLS and of uvloop have no such size, and a lost one is None."""
    transport = asyncio.Transport()
    read_little(transport)
    for each in (transport, None):
        with read_freely(each):
            assert not hasattr(each, "max_size")
