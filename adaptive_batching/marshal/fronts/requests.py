"""Answers in the service what fronts ask it."""

from collections.abc import Awaitable, Callable, Sequence

from adaptive_batching.dispatcher import request_name
from adaptive_batching.errors import NoWorkers
from adaptive_batching.marshal.error_log import ErrorLog
from adaptive_batching.marshal.fronts.link import Link
from adaptive_batching.marshal.fronts.messages import Ask, AskReady, Reply
from adaptive_batching.marshal.lane import Lane
from adaptive_batching.marshal.rejections import PlainAnswer, refusal
from adaptive_batching.marshal.request_ids import new_request_id


class Requests:
    """Lets bodies join batches, and says what became of them.

    Args:
        lanes: In the order that fronts know.
        readiness: What `/readyz` answers, if asked deeply or not.

    Attributes:
        held_bytes: Of the bodies that wait for their answers.
    """

    def __init__(
        self, lanes: Sequence[Lane], readiness: Callable[[bool], Awaitable[PlainAnswer]]
    ) -> None:
        self.held_bytes = 0
        self._lanes = lanes
        self._readiness = readiness
        self._errors = ErrorLog()

    async def answer(self, ask: Ask | AskReady, link: Link) -> None:
        """Answer one request, whatever happens, unless its client leaves."""
        if isinstance(ask, AskReady):
            link.send(await self._ready(ask))
            return
        self.held_bytes += len(ask.body)
        try:
            link.send(await self._reply(ask, self._lanes[ask.lane]))
        finally:
            self.held_bytes -= len(ask.body)

    async def _reply(self, ask: Ask, lane: Lane) -> Reply:
        request_name.set(ask.name)
        item = ask.body if ask.choice is None else (*ask.choice, ask.body)
        if not lane.line.ready:
            return _reply(ask.number, refusal(NoWorkers("they are still loading"), ask.name))
        try:
            return Reply(ask.number, 200, {}, await lane.answer(item, ask.within))
        except Exception as error:  # noqa: BLE001  a client gets an answer, whatever went wrong
            self._errors.enter(error, ask.name, lane.path)
            return _reply(ask.number, refusal(error, ask.name))

    async def _ready(self, ask: AskReady) -> Reply:
        try:
            return _reply(ask.number, await self._readiness(ask.deep))
        except Exception as error:  # noqa: BLE001  as above
            return _reply(ask.number, refusal(error, new_request_id()))


def _reply(number: int, answer: PlainAnswer) -> Reply:
    return Reply(number, answer.status, dict(answer.headers), answer.body)
