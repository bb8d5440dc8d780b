"""The endpoints as a front sees them: what comes is answered by the service."""

import asyncio
import itertools
from collections.abc import Mapping
from functools import partial
from typing import Any

from adaptive_batching.dispatcher import request_name
from adaptive_batching.errors import NoWorkers
from adaptive_batching.marshal.fronts.link import Link
from adaptive_batching.marshal.fronts.messages import (
    Ask,
    AskReady,
    LaneOfService,
    Reply,
    Withdraw,
)
from adaptive_batching.marshal.lane import Lane
from adaptive_batching.marshal.negotiation import Negotiation
from adaptive_batching.marshal.rejections import PlainAnswer, ToldElsewhere
from adaptive_batching.payloads.annotations import UNDECLARED
from adaptive_batching.payloads.codecs import parse_codecs
from adaptive_batching.payloads.contract import Contract
from adaptive_batching.payloads.payload import Payload


class RemoteService:
    """Asks the service, and gives up when it has gone.

    Args:
        link: To the service.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[Reply]] = {}
        self._here = True

    @property
    def ready(self) -> bool:
        """Whether it can be asked; it knows itself whether its workers are ready."""
        return self._here

    def lanes(self, described: list[LaneOfService]) -> Mapping[str, Lane]:
        """The endpoints by path."""
        return {each.path: self._lane(number, each) for number, each in enumerate(described)}

    def told(self, reply: Reply) -> None:
        """The service has answered."""
        asked = self._asked.get(reply.number)
        if asked is not None and not asked.done():
            asked.set_result(reply)

    def lost(self) -> None:
        """The service has ended: so much for those who wait."""
        self._here = False
        for asked in self._asked.values():
            if not asked.done():
                asked.set_exception(NoWorkers("the service has ended"))

    async def readiness(self, *, deep: bool) -> PlainAnswer:
        """What `/readyz` answers.

        Raises:
            NoWorkers: Nobody knows.
        """
        return _answer(await self._ask(AskReady(next(self._numbers), deep)))

    async def start(self) -> None:
        """The service has begun by itself."""

    def flush(self) -> None:
        """The service does it by itself."""

    async def aclose(self, timeout: float | None = None) -> None:  # noqa: ASYNC109  as a line's
        """The service ends by itself."""

    def _lane(self, number: int, described: LaneOfService) -> Lane:
        contract = Contract(
            Payload(parse_codecs("codec", described.item_codecs)),
            Payload(
                parse_codecs("codec", described.result_codecs),
                str if described.text else UNDECLARED,
            ),
        )
        return Lane(
            described.path,
            self,
            Negotiation(contract),
            partial(self._result, number),
            described.max_latency,
            described.max_body,
            watched=[],
            examples=[],
        )

    async def _result(self, lane: int, item: Any, within: float) -> bytes:
        *choice, body = item if isinstance(item, tuple) else (item,)
        chosen = (choice[0], choice[1]) if choice else None
        ask = Ask(next(self._numbers), lane, request_name.get(), within, chosen, body)
        reply = await self._ask(ask)
        if reply.status != 200:
            raise ToldElsewhere(_answer(reply))
        return reply.body

    async def _ask(self, ask: Ask | AskReady) -> Reply:
        if not self._here:
            raise NoWorkers("the service has ended")
        asked: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._asked[ask.number] = asked
        self._link.send(ask)
        try:
            return await asked
        except asyncio.CancelledError:
            self._link.send(Withdraw(ask.number))
            raise
        finally:
            del self._asked[ask.number]


def _answer(reply: Reply) -> PlainAnswer:
    return PlainAnswer(reply.status, reply.headers, reply.body)
