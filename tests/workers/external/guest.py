"""A worker in the hands of a test: it says what it is told to, whether that is right or wrong."""

import asyncio

import msgspec

from adaptive_batching.wire.frames import FrameDecoder, encode

HELLO = {"type": "hello", "protocol": 1}


class Guest:
    """The worker's end of a connection to a socket."""

    def __init__(self, reader, writer):
        self._reader = reader
        self._writer = writer
        self._decoder = FrameDecoder()
        self._received = []

    @classmethod
    async def connect(cls, path):
        return cls(*await asyncio.open_unix_connection(path))

    @classmethod
    async def idle(cls, path, **hello):
        """Connect, introduce oneself and ask for a batch."""
        guest = await cls.connect(path)
        guest.say(HELLO | hello)
        guest.frame(b"")
        return guest

    def raw(self, data):
        self._writer.write(data)

    def frame(self, payload):
        self.raw(b"".join(encode([payload])))

    def say(self, message):
        self.frame(msgspec.msgpack.encode(message))

    async def hear(self):
        """The next message; None at the end of the connection."""
        while not self._received:
            data = await self._reader.read(2**16)
            if not data:
                return None
            self._received = self._decoder.feed(data)
        return msgspec.msgpack.decode(self._received.pop(0))

    async def batch(self):
        message = await self.hear()
        assert message["type"] == "batch", message
        return message["jobs"]

    def answer(self, results, errors=()):
        self.say({"type": "results", "results": list(results), "errors": list(errors)})

    async def serve(self, function, batches=1):
        """Answer some batches with a function of each item."""
        for _ in range(batches):
            self.answer((job, function(item)) for job, item in await self.batch())

    async def refused(self):
        """Why we are hung up on, after whatever else we are told."""
        reason = None
        try:
            while (message := await self.hear()) is not None:
                reason = message.get("reason", reason)
        except ConnectionResetError:
            pass  # what we had sent was not read any more
        return reason

    def close(self):
        self._writer.close()
