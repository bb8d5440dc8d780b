"""For an application of aiohttp: answers to our errors, and workers that live as long as it."""

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from adaptive_batching.contrib import lifetimes
from adaptive_batching.contrib.error_answers import ErrorAnswers
from adaptive_batching.errors import BatchingError

if TYPE_CHECKING:
    from aiohttp import web
    from aiohttp.typedefs import Handler

__all__ = ["install", "lifespan"]


def install(app: "web.Application") -> None:
    """Answer each error of this library with its status, its code and `Retry-After`.

    What a handler of batches raises by itself stays with the application.
    """
    from aiohttp import web

    answers = ErrorAnswers()

    @web.middleware
    async def answer(request: web.Request, handler: "Handler") -> web.StreamResponse:
        try:
            return await handler(request)
        except BatchingError as error:
            resource = request.match_info.route.resource
            path = "other" if resource is None else resource.canonical
            reply = answers.reply(error, request.headers.get("X-Request-Id"), path)
            return web.Response(body=reply.body, status=reply.status, headers=reply.headers)

    app.middlewares.append(answer)


def lifespan(
    *batched: lifetimes.Running,
) -> "Callable[[web.Application], AsyncIterator[None]]":
    """Return what starts batched functions and classes, and closes them at the end.

    It is for `app.cleanup_ctx.append(lifespan(Model))`.

    Raises:
        TypeError: One can't be started and closed.
    """
    lifetimes.check(batched)

    async def living(_app: "web.Application") -> AsyncIterator[None]:
        async with lifetimes.running(batched):
            yield

    return living
