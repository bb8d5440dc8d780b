"""Whether requests would really be answered: examples are sent, or servers are connected to."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from time import monotonic

from adaptive_batching.errors import NoWorkers
from adaptive_batching.marshal.http.error_responses import status_and_code
from adaptive_batching.marshal.service.runtimes.endpoint_runtime import EndpointRuntime

_PATIENCE = 5.0  # seconds for an example's answer
_PAUSE = 1.0  # seconds for which what was found is told again

UNREACHABLE = "upstream_unreachable"
Findings = Mapping[str, str]
"""By path or route: `ok`, `no_example`, or the code of what went wrong."""
Looks = Mapping[str, Callable[[], Awaitable[str]]]
"""By path or route, what finds that out."""


class ActiveHealthCheck:
    """Looks, however many ask, only once at a time and once a second.

    Anybody may ask, so it must not be a way to flood the workers: a request meanwhile, or soon
    after, is told what was found for the first one.

    Args:
        looks: What there is to look at now.
    """

    def __init__(self, looks: Callable[[], Looks]) -> None:
        self._looks = looks
        self._looking: asyncio.Task[Findings] | None = None
        self._found = 0.0  # when (monotonic seconds)

    async def __call__(self) -> Findings:
        """What was found, now or within the last second."""
        looking = self._looking
        if looking is None or (looking.done() and monotonic() - self._found >= _PAUSE):
            looking = self._looking = asyncio.create_task(self._look())
        return await asyncio.shield(looking)  # others may wait for it when one has gone

    async def _look(self) -> Findings:
        looks = self._looks()
        found = await asyncio.gather(*(look() for look in looks.values()))
        self._found = monotonic()
        return dict(zip(looks, found, strict=True))


def check_of_examples(lanes: Mapping[str, EndpointRuntime]) -> ActiveHealthCheck:
    """Sends each endpoint its example, the way of every request."""
    return ActiveHealthCheck(lambda: {path: partial(_tried, lane) for path, lane in lanes.items()})


async def _tried(lane: EndpointRuntime) -> str:
    if not lane.examples:
        return "no_example"
    if not lane.backend.ready:
        return NoWorkers.code
    try:
        await lane.answer(lane.examples[0], min(_PATIENCE, lane.max_latency))
    except Exception as error:  # noqa: BLE001  whatever it is, it is what was looked for
        return status_and_code(error)[1]
    return "ok"
