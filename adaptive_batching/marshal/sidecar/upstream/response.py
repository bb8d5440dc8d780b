"""Answers of model servers, after which their connection may not be good for another request."""

from typing import Self

import aiohttp
from aiohttp.connector import Connection

_FAILED = 500


class Response(aiohttp.ClientResponse):
    """Ends its connection if the server failed.

    uvicorn, which most Python servers stand on, hangs up after an exception that nobody caught
    without having said so; the next request on that connection would be lost.
    """

    async def start(self, connection: Connection) -> Self:
        """Read the status and the headers."""
        protocol = connection.protocol
        await super().start(connection)
        if self.status >= _FAILED and protocol is not None:
            if self.connection is None:  # all of it is there: it waits for others already
                protocol.close()
            else:
                protocol.force_close()
        return self
