"""Two hundred clients that are as slow as they can be; what do the others notice?"""

import asyncio
import shutil
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from statistics import quantiles

from adaptive_batching.bench.harness.contest import Contest, take_turns
from adaptive_batching.bench.harness.report import Report, Row, Unavailable, Verdict
from adaptive_batching.bench.harness.servers import baseline, service, sidecar
from adaptive_batching.bench.harness.traffic import INSTANCES, ROWS
from adaptive_batching.load import End, OpenLoop, run_open_loop

_TOOL = "slowhttptest"
_ATTACKS = {
    "none": (),
    "slow headers": ("-H",),
    "slow bodies": ("-B",),
    "slow reading": ("-X", "-w", "10", "-y", "20", "-n", "1", "-z", "5", "-k", "3"),
}
_CONNECTIONS = 200
_RATE = 300.0  # requests a second of good clients
_REQUIRED = 1.5  # times undisturbed


async def measure(*, loop: str, quick: bool) -> Report:
    """The latency of good clients beside each kind of slow ones, by turns.

    Raises:
        Unavailable: slowhttptest is not installed.
    """
    if shutil.which(_TOOL) is None:
        raise Unavailable(f"{_TOOL} is not installed: apt install {_TOOL}")
    # Seconds: until all the slow ones are there, and of each turn.
    connecting, seconds, rounds = (0.3, 0.3, 1) if quick else (1.0, 3.0, 3)
    rows: list[Row] = []
    verdicts: list[Verdict] = []
    async with (
        baseline(loop, "model") as model,
        sidecar(model.url, loop, "--protocol", "tensorflow") as ours,
        service("throughput", loop) as served,
    ):
        targets = {
            "sidecar": (f"{ours.url}/v1/models/no-op:predict", INSTANCES.bodies),
            "service": (f"{served.url}/no-op", ROWS.bodies),
        }
        for name, (url, bodies) in targets.items():
            contestants = {
                attack: partial(_beside, arguments, url, bodies, connecting, seconds)
                for attack, arguments in _ATTACKS.items()
            }
            found = Contest(await take_turns(contestants, rounds))
            beside = found.rows("beside", "none", {"times undisturbed": "p99 ms"})
            rows += [{"server": name, **row} for row in beside]
            for attack in list(_ATTACKS)[1:]:
                what, times = f"{name}, p99 beside {attack}", found.times(attack, "none", "p99 ms")
                verdicts.append(Verdict(what, times, "at most", _REQUIRED, "times undisturbed"))
    title = (
        f"slow-clients: {_CONNECTIONS} of {_TOOL}, and {_RATE:.0f} good requests a second for a"
        f" model that costs nothing, {loop}"
    )
    return Report(title, rows, verdicts)


async def _beside(
    arguments: tuple[str, ...], url: str, bodies: list[bytes], connecting: float, seconds: float
) -> dict[str, float]:
    async with _slow_clients(arguments, url, connecting, seconds):
        plan = OpenLoop(url=url, bodies=bodies, phases=[(_RATE, seconds)])
        answers = await run_open_loop(plan)
    percentiles = quantiles((each.latency - each.lag for each in answers), n=100)
    return {
        "p50 ms": percentiles[49] * 1e3,
        "p99 ms": percentiles[98] * 1e3,
        "not answered": sum(each.end is not End.ANSWERED for each in answers),
    }


@asynccontextmanager
async def _slow_clients(
    arguments: tuple[str, ...], url: str, connecting: float, seconds: float
) -> AsyncIterator[None]:
    if not arguments:
        yield
        return
    many = ("-c", f"{_CONNECTIONS}", "-r", f"{_CONNECTIONS}", "-i", "1", "-u", url)
    length = ("-l", f"{int(connecting + seconds) + 30}")
    slow = await asyncio.create_subprocess_exec(
        _TOOL, *arguments, *many, *length, stdout=DEVNULL, stderr=DEVNULL
    )
    try:
        await asyncio.sleep(connecting)
        yield
    finally:
        if slow.returncode is None:
            slow.kill()
        await slow.wait()
