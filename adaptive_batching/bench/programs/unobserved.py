"""The service of `bench http` without observers: `python -m … LOOP`.

What it costs to be watched can only be told beside it: a service counts, always, for `/metrics`.
"""

import asyncio
import sys
from dataclasses import replace
from typing import Any

from adaptive_batching.bench.harness.loops import loop_factory
from adaptive_batching.bench.programs.apps import throughput
from adaptive_batching.dispatcher import Dispatcher
from adaptive_batching.marshal.http.server.server import Server
from adaptive_batching.marshal.service.router import ServiceRouter
from adaptive_batching.marshal.service.runtimes.endpoint_runtime import EndpointRuntime
from adaptive_batching.marshal.service.runtimes.endpoint_runtimes import EndpointRuntimes


def _unobserved(endpoint: EndpointRuntime) -> EndpointRuntime:
    """These workers behind a dispatcher without observers."""
    observed = endpoint.dispatcher
    dispatcher: Dispatcher[Any, bytes] = Dispatcher(
        observed.workers, observed.limits, next_batch_first=True
    )
    post = dispatcher.post
    return replace(endpoint, backend=dispatcher, dispatcher=dispatcher, post=post, watched=())


async def _main() -> None:
    runtimes = EndpointRuntimes(throughput, at_work=[])
    endpoints = runtimes.by_path
    endpoints.update({path: _unobserved(each) for path, each in endpoints.items()})
    router = ServiceRouter(throughput.description, runtimes)
    url = await Server(router).open("127.0.0.1", 0)
    await asyncio.gather(*(each.backend.start() for each in endpoints.values()))
    sys.stdout.write(f"{url}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=loop_factory(sys.argv[1])) as runner:
        runner.run(_main())
