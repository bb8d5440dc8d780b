"""Answers requests that another server has framed: one of ASGI, or an aiohttp application."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from adaptive_batching.marshal.http.error_responses import Rejected
from adaptive_batching.marshal.http.handler import Handler, InFlight
from adaptive_batching.marshal.http.request import Request
from adaptive_batching.marshal.http.response import Response
from adaptive_batching.marshal.service.router import ServiceRouter


class ClientGone(Exception):
    """The client that asked has gone: no answer is wanted."""


async def answer(
    handler: Handler,
    request: Request,
    body: AsyncIterator[bytes],
    leaving: Callable[[], Coroutine[Any, Any, None]] | None = None,
) -> Response:
    """Answer a request for an endpoint.

    Args:
        handler: Answers it.
        request: Its line and headers.
        body: The pieces of its body, as they arrive.
        leaving: Waits until the client has gone; None if this is cancelled then.

    Raises:
        ClientGone: The client left before its body was there, or before its answer.
    """
    length = request.headers.get("content-length")
    request.length = int(length) if length is not None and length.isdecimal() else None
    try:
        await _receive(handler, request, body)
    except TimeoutError:
        handler.drop(request)
        return handler.refusal(request, Rejected(408, "body_timeout", closes=True))
    except ClientGone:
        handler.drop(request)
        raise
    except Exception as error:  # noqa: BLE001  a client gets an answer, whatever went wrong
        handler.drop(request)
        return handler.refusal(request, error)
    answered: asyncio.Future[Response | None] = asyncio.get_running_loop().create_future()
    begun = handler.begin(request, answered.set_result)
    if isinstance(begun, Response):
        return begun
    assert begun is not None
    return await _unless_gone(begun, answered, leaving)


async def show(router: ServiceRouter, request: Request) -> Response:
    """Answer a request for a page, whatever happens."""
    try:
        return await router.show(request)
    except Exception as error:  # noqa: BLE001  a client gets an answer, whatever went wrong
        return router.refusal(request, error)


async def _receive(handler: Handler, request: Request, body: AsyncIterator[bytes]) -> None:
    """Collect a body.

    Raises:
        TimeoutError: It took too long.
        Rejected: It is too large.
    """
    keep = handler.keep(request)
    assert keep is not None
    async with asyncio.timeout(keep.seconds):
        async for piece in body:
            request.size += len(piece)
            if request.size > keep.limit:
                raise Rejected(413, "body_too_large", closes=True)
            handler.hold(request, request.size)
            request.take(piece)
    request.is_whole = True


async def _unless_gone(
    begun: InFlight,
    answered: "asyncio.Future[Response | None]",
    leaving: Callable[[], Coroutine[Any, Any, None]] | None,
) -> Response:
    """Wait for an answer, or leave with the client."""
    gone = None if leaving is None else asyncio.ensure_future(leaving())
    try:
        waited: set[asyncio.Future[Any]] = {answered} if gone is None else {answered, gone}
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if not answered.done():
            raise ClientGone
        response = answered.result()
        assert response is not None
        return response
    finally:
        if not answered.done():
            begun.leave()
        if gone is not None:
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)
