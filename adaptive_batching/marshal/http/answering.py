"""Who answers requests."""

from collections.abc import Awaitable
from typing import Protocol

from aiohttp import web


class Answering(Protocol):
    """What answers requests and knows whether it is done."""

    def __call__(self, request: web.BaseRequest, /) -> Awaitable[web.StreamResponse]:
        """Answer one request, whatever happens."""
        ...

    async def emptied(self) -> None:
        """Wait until no request is being answered."""
        ...
