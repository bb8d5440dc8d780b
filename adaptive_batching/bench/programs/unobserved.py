"""The service of `bench http` with nobody who looks at it: `python -m … LOOP`.

What it costs to be watched can only be told beside it: a service counts, always, for `/metrics`.
"""

import asyncio
import sys
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any

from adaptive_batching.bench.loops import loop_factory
from adaptive_batching.bench.programs.apps import throughput
from adaptive_batching.dispatcher import Dispatcher
from adaptive_batching.marshal.http.listener import Listener
from adaptive_batching.marshal.service.endpoint_runtime import Lane, Posting, make_lanes
from adaptive_batching.marshal.service.router import Marshal


def _unobserved(lane: Lane) -> Lane:
    """The same workers behind a dispatcher that tells nobody."""
    assert isinstance(lane.line, Dispatcher)
    dispatcher: Dispatcher[Any, bytes] = Dispatcher(
        lane.line.workers, lane.line.limits, next_batch_first=True
    )

    def answer(item: Any, within: float) -> Awaitable[bytes]:
        return dispatcher.submit(item, None, within)

    posting = Posting.to(dispatcher)
    return replace(lane, line=dispatcher, answer=answer, posting=posting, watched=())


async def _main() -> None:
    lanes = {lane.path: _unobserved(lane) for lane in make_lanes(throughput, {})}
    marshal = Marshal(
        lanes,
        {},
        max_in_flight=throughput.max_in_flight,
        body_timeout=throughput.body_timeout,
    )
    url = await Listener(marshal, fast_path=marshal).open("127.0.0.1", 0)
    await asyncio.gather(*(lane.line.start() for lane in lanes.values()))
    sys.stdout.write(f"{url}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=loop_factory(sys.argv[1])) as runner:
        runner.run(_main())
