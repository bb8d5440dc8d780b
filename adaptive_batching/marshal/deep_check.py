"""Whether the endpoints really answer: their own examples, sent the way of every request."""

import asyncio
from collections.abc import Mapping
from time import monotonic

from adaptive_batching.errors import NoWorkers
from adaptive_batching.marshal.lane import Lane
from adaptive_batching.marshal.rejections import status_and_code

_PATIENCE = 5.0  # seconds for an example's answer
_PAUSE = 1.0  # seconds for which what was found is told again

Findings = Mapping[str, str]
"""By path: `ok`, `no_example`, or the code of the error that its example met."""


class DeepCheck:
    """Sends each endpoint its example, however many ask only once at a time and once a second.

    Anybody may ask, so it must not be a way to flood the workers: who asks meanwhile, or soon
    after, is told what was found for the first one.

    Args:
        lanes: The ways of the endpoints' requests.
    """

    def __init__(self, lanes: Mapping[str, Lane]) -> None:
        self._lanes = lanes
        self._looking: asyncio.Task[Findings] | None = None
        self._found = 0.0  # when (monotonic seconds)

    async def __call__(self) -> Findings:
        """What became of the examples, now or within the last second."""
        looking = self._looking
        if looking is None or (looking.done() and monotonic() - self._found >= _PAUSE):
            looking = self._looking = asyncio.create_task(self._look())
        return await asyncio.shield(looking)  # others may wait for it when one has gone

    async def _look(self) -> Findings:
        found = await asyncio.gather(*map(_tried, self._lanes.values()))
        self._found = monotonic()
        return dict(zip(self._lanes, found, strict=True))


async def _tried(lane: Lane) -> str:
    if not lane.examples:
        return "no_example"
    if not lane.line.ready:
        return NoWorkers.code
    try:
        await lane.answer(lane.examples[0], min(_PATIENCE, lane.max_latency))
    except Exception as error:  # noqa: BLE001  whatever it is, it is what was looked for
        return status_and_code(error)[1]
    return "ok"
