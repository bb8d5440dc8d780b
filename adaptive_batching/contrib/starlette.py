"""For an application of Starlette: answers to our errors, and workers that live as long as it."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from adaptive_batching.contrib import lifetimes
from adaptive_batching.contrib.error_answers import ErrorAnswers
from adaptive_batching.errors import BatchingError, Refused

if TYPE_CHECKING:
    from starlette.applications import Starlette

__all__ = ["install", "lifespan"]

Lifespan: TypeAlias = Callable[[Any], AbstractAsyncContextManager[Any]]

_TRY_AGAIN_LATER, _INTERNAL_ERROR = 1013, 1011  # why a WebSocket is closed


def install(app: "Starlette") -> None:
    """Answer each error of this library with its status, its code and `Retry-After`.

    Routes need no `try`: 503 and 504 in overload, 422 for an item that is wrong. A WebSocket is
    closed with 1013 (try again later) if its item was refused, else with 1011. What a handler of
    batches raises by itself stays with the application.
    """
    from starlette.responses import Response

    answers = ErrorAnswers()

    async def answer(request: Any, error: Any) -> Any:
        given = request.headers.get("x-request-id")
        reply = answers.reply(error, given, _route_of(request.scope))
        if request.scope["type"] == "websocket":
            code = _TRY_AGAIN_LATER if isinstance(error, Refused) else _INTERNAL_ERROR
            await request.close(code)
            return None
        return Response(reply.body, reply.status, reply.headers)

    app.add_exception_handler(BatchingError, answer)


def lifespan(*batched: lifetimes.Running, own: Lifespan | None = None) -> Lifespan:
    """Return a lifespan that starts batched functions and classes, and closes them at the end.

    Args:
        batched: What `@batched` made; anything else that `async with` starts and closes is welcome.
        own: The lifespan that the application has already: it begins when all of them are ready and
            ends before they do, and what it yields is the application's state.

    Raises:
        TypeError: One can't be started and closed.
    """
    lifetimes.check(batched)

    @asynccontextmanager
    async def living(app: Any) -> AsyncIterator[Any]:
        async with lifetimes.running(batched):
            if own is None:
                yield
            else:
                async with own(app) as state:
                    yield state

    return living


def _route_of(scope: Any) -> str:
    """The path of a route as it is declared, or the name of what answers: few for all requests."""
    endpoint: str = getattr(scope.get("endpoint"), "__qualname__", "other")
    return getattr(scope.get("route"), "path", endpoint)
