"""Clients that send again when they are answered: does a batch wait for all of them?"""

from functools import partial

from adaptive_batching.bench.harness.contest import hold
from adaptive_batching.bench.harness.report import Report, Verdict
from adaptive_batching.bench.harness.servers import service
from adaptive_batching.bench.harness.traffic import ROWS

_CONNECTIONS = 64
_OURS, _GREEDY, _WINDOW = "cork", "greedy", "window:5ms"
_OF_WINDOW = 0.98
_OF_GREEDY = 1.2


async def measure(*, loop: str, quick: bool) -> Report:
    """Requests a second of three policies by turns."""
    seconds, rounds = (0.4, 1) if quick else (2.0, 7)
    async with service("latency", loop) as server:
        contestants = {
            policy: partial(
                server.under_load,
                f"/{policy.replace(':', '-')}",
                ROWS,
                connections=_CONNECTIONS,
                seconds=seconds,
            )
            for policy in (_OURS, _GREEDY, _WINDOW)
        }
        found = await hold(contestants, rounds, quick=quick)
    by_window, by_greedy = found.times(_OURS, _WINDOW), found.times(_OURS, _GREEDY)
    verdicts = [
        Verdict("cork's requests/s", by_window, "at least", _OF_WINDOW, "times window:5ms"),
        Verdict("cork's requests/s", by_greedy, "at least", _OF_GREEDY, "times greedy"),
    ]
    title = (
        f"closed-loop: model of 5 ms + 0.05 ms·n in a process, {_CONNECTIONS} clients without think"
        f" time, {loop}"
    )
    return Report(title, found.rows("policy", _GREEDY, {"times greedy": "requests/s"}), verdicts)
