"""As many requests as clients can send, to a model that costs nothing."""

from functools import partial
from typing import NamedTuple

from adaptive_batching.bench.harness.contest import hold
from adaptive_batching.bench.harness.report import Report, Verdict
from adaptive_batching.bench.harness.servers import ServerProcess, baseline, service
from adaptive_batching.bench.harness.traffic import ROWS

_CONNECTIONS = 64
_BARE, _FLOOR = "bare aiohttp", "bare Protocol"
_IN_PROCESS, _PROCESS = "in process", "one worker process"
_SAME_HEADS = ", same heads"
_REQUIRED = {_IN_PROCESS: 1.8, _PROCESS: 1.6}  # times a bare route
_REPEATED = 1.1  # times new heads: by no more than noise


class _Target(NamedTuple):
    server: ServerProcess
    path: str
    repeated: bool = False


async def measure(*, loop: str, quick: bool) -> Report:
    """Beside a bare route, and a bare protocol: what parsing and JSON alone cost.

    No two requests are the same. What the same heads again and again would gain is measured as
    well, for comparison: nothing, if no head is remembered.
    """
    seconds, rounds = (0.3, 1) if quick else (4.0, 5)
    async with (
        service("in_process", loop) as in_process,
        service("throughput", loop) as ours,
        baseline(loop, "route") as route,
        baseline(loop, "protocol") as protocol,
    ):
        targets = {
            _IN_PROCESS: _Target(in_process, "/no-op"),
            _PROCESS: _Target(ours, "/no-op"),
            _BARE: _Target(route, "/"),
            _FLOOR: _Target(protocol, "/"),
            _PROCESS + _SAME_HEADS: _Target(ours, "/no-op", repeated=True),
            _BARE + _SAME_HEADS: _Target(route, "/", repeated=True),
        }
        contestants = {
            name: partial(
                target.server.under_load,
                target.path,
                ROWS,
                connections=_CONNECTIONS,
                seconds=seconds,
                repeated=target.repeated,
            )
            for name, target in targets.items()
        }
        found = await hold(contestants, rounds, quick=quick)
    ratios = {"times bare": "requests/s", "times its CPU": "CPU µs/request"}
    verdicts = [
        Verdict(name, found.times(name, _BARE), "at least", required, "times bare")
        for name, required in _REQUIRED.items()
    ]
    gained = found.times(_PROCESS + _SAME_HEADS, _PROCESS)
    verdicts.append(Verdict("same heads", gained, "at most", _REPEATED, "times new ones"))
    title = f"throughput: no-op model, {_CONNECTIONS} clients in a closed loop, new heads, {loop}"
    return Report(title, found.rows("server", _BARE, ratios), verdicts)
