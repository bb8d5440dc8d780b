"""A real model behind a server that runs it for one request at a time, with and without us."""

import importlib.util
from functools import partial

import msgspec

from adaptive_batching.bench.harness.contest import hold
from adaptive_batching.bench.harness.report import Report, Unavailable, Verdict
from adaptive_batching.bench.harness.servers import ServerProcess, one_at_a_time, sidecar
from adaptive_batching.bench.harness.traffic import Traffic

_PATH = "/v1/models/digits:predict"
_IMAGES = ([float((5 * n + shade) % 17) for n in range(64)] for shade in range(17))
_TRAFFIC = Traffic([msgspec.json.encode({"instances": [image]}) for image in _IMAGES])
_WITHIN = 0.1  # seconds
_CLIENTS = {"direct": (1, 2, 4, 8), "sidecar": (16, 32, 64, 96)}
_REQUIRED = 8.0  # times direct


async def measure(*, loop: str, quick: bool) -> Report:
    """As many requests as can be had while 99 in 100 are answered in time, by turns.

    Raises:
        Unavailable: There is no scikit-learn.
    """
    if importlib.util.find_spec("sklearn") is None:
        raise Unavailable("scikit-learn is not installed: pip install scikit-learn")
    seconds, rounds, step = (1.0, 1, 3) if quick else (2.0, 3, 1)
    within = 10 * _WITHIN if quick else _WITHIN  # quick runs judge nothing
    options = ("--protocol", "tensorflow", "--max-latency", f"{within}s")
    async with one_at_a_time() as direct, sidecar(direct.url, loop, *options) as ours:
        contestants = {
            name: partial(_best, server, _CLIENTS[name][::step], seconds, within)
            for name, server in {"direct": direct, "sidecar": ours}.items()
        }
        found = await hold(contestants, rounds, quick=quick)
    rows = found.rows("way", "direct", {"times direct": "requests/s"})
    title = (
        "digits: a random forest behind a server that answers one request at a time, the most"
        f" clients in a closed loop whose p99 is within {within * 1e3:.0f} ms, {loop}"
    )
    times = found.times("sidecar", "direct")
    return Report(
        title, rows, [Verdict("requests/s", times, "at least", _REQUIRED, "times direct")]
    )


async def _best(
    server: ServerProcess, clients: tuple[int, ...], seconds: float, within: float
) -> dict[str, float]:
    """The best that any number of clients gets in time; the fewest clients if none does."""
    tried = [
        {
            "clients": float(number),
            **await server.under_load(_PATH, _TRAFFIC, connections=number, seconds=seconds),
        }
        for number in clients
    ]
    in_time = [each for each in tried if each["p99 ms"] <= within * 1e3]
    return max(in_time, key=lambda each: each["requests/s"], default=tried[0])
