"""What one request crosses, from bytes to bytes: files and calls of ours in the server's thread."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from random import Random
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import NamedTuple

from adaptive_batching.bench.harness.report import Report, Row, Verdict
from adaptive_batching.bench.harness.servers import ServerProcess, baseline, service, sidecar
from adaptive_batching.bench.harness.traffic import INSTANCES, ROWS, Traffic
from adaptive_batching.load.connection import ClientConnection
from adaptive_batching.load.requests import Requests

_REQUESTS = 100  # the first half warms up
_PAUSE = 0.03  # seconds, in the mean
_LOOP = "asyncio"


class _Limits(NamedTuple):
    files: int
    calls: int


_SERVICE, _SIDECAR = _Limits(25, 120), _Limits(35, 180)


async def measure() -> list[Report]:
    """One request at a time to a service with one worker process, and to a sidecar."""
    async with baseline(_LOOP, "model") as model:
        found = await asyncio.gather(  # at the same time: what is counted is no time
            _walk(lambda file: service("throughput", _LOOP, walk=file), "/no-op", ROWS),
            _walk(
                lambda file: sidecar(model.url, _LOOP, "--protocol", "tensorflow", walk=file),
                "/v1/models/no-op:predict",
                INSTANCES,
            ),
        )
    walks = dict(zip(("service", "sidecar"), found, strict=True))
    rows: list[Row] = []
    verdicts = []
    for (name, walk), limits in zip(walks.items(), (_SERVICE, _SIDECAR), strict=True):
        files, calls = fmean(map(len, walk)), fmean(each.total() for each in walk)
        rows.append({"request of": name, "files": files, "calls": calls})
        verdicts.append(Verdict(name, files, "at most", limits.files, "files"))
        verdicts.append(Verdict(name, calls, "at most", limits.calls, "calls"))
    title = "walk: one request from bytes to bytes, in the mean of 50, asyncio"
    return [Report(title, rows, verdicts), *(_files(*each) for each in walks.items())]


async def _walk(
    server: Callable[[Path], AbstractAsyncContextManager[ServerProcess]],
    path: str,
    traffic: Traffic,
) -> list[Counter[str]]:
    """Calls by file, for each of the last requests.

    They come at random, as from clients that know nothing of each other: a client that sends again
    at once teaches the policy to wait for it, and a batch that is held is decided on twice.
    """
    random = Random(0)  # noqa: S311  not a secret
    with TemporaryDirectory() as folder:
        written = Path(folder) / "walk.json"
        async with server(written) as running:
            requests = Requests(running.url + path, traffic.bodies, traffic.headers)
            connection = await ClientConnection.open(running.url)
            for number in range(_REQUESTS):
                await asyncio.sleep(random.expovariate(1 / _PAUSE))
                answer = await connection.post(requests.post(number))
                if traffic.answers[number] not in answer.body:
                    raise RuntimeError(f"expected {traffic.answers[number]!r}, got {answer}")
            connection.close()
        return [Counter(each) for each in json.loads(written.read_bytes())]


def _files(name: str, walk: list[Counter[str]]) -> Report:
    """The files that most requests cross, and their calls in the mean."""
    calls: Counter[str] = sum(walk, Counter())
    rows: list[Row] = [
        {"file": file, "calls": count / len(walk)}
        for file, count in calls.most_common()
        if sum(file in each for each in walk) > len(walk) / 2
    ]
    return Report(f"walk: files that a request of the {name} crosses", rows, [])
