"""What requests wait for under two policies: holding may not cost where it can't gain."""

from functools import partial
from statistics import fmean, median, quantiles

from adaptive_batching.bench.harness.contest import medians, take_turns
from adaptive_batching.bench.harness.report import Report, Row, Verdict
from adaptive_batching.bench.harness.servers import service
from adaptive_batching.bench.harness.traffic import ROWS
from adaptive_batching.load import End, OpenLoop, run_open_loop

_RATES = (200.0, 1_000.0, 4_000.0)  # requests a second
_REQUIRED = {"mean ms": 0.5, "p50 ms": 1.0, "p99 ms": 1.0}  # above greedy


async def measure(*, loop: str, quick: bool) -> Report:
    """Both policies beside each other; waiting may not cost where it can't gain."""
    seconds, rounds, rates = (0.5, 1, _RATES[:1]) if quick else (5.0, 3, _RATES)
    rows: list[Row] = []
    verdicts = []
    async with service("latency", loop) as server:
        for rate in rates:
            contestants = {
                policy: partial(_open, f"{server.url}/{policy}", rate, seconds)
                for policy in ("cork", "greedy")
            }
            taken = await take_turns(contestants, rounds)
            for policy, turns in taken.items():
                rows.append({"requests/s": rate, "policy": policy, **medians(turns)})
            for name, required in _REQUIRED.items():
                pairs = zip(taken["cork"], taken["greedy"], strict=True)
                more = median(cork[name] - greedy[name] for cork, greedy in pairs)
                what = f"{name.removesuffix(' ms')} at {rate:,.0f}/s"
                verdicts.append(Verdict(what, more, "at most", required, "ms above greedy"))
    title = f"latency: model of 5 ms + 0.05 ms·n in a process, Poisson traffic, {loop}"
    return Report(title, rows, verdicts)


async def _open(url: str, rate: float, seconds: float) -> dict[str, float]:
    warm_up = seconds / 5
    phases = [(rate, warm_up + seconds)]
    answers = await run_open_loop(OpenLoop(url=url, bodies=ROWS.bodies, phases=phases))
    counted = [answer for answer in answers if answer.scheduled >= warm_up]
    percentiles = quantiles((each.latency for each in counted), n=100)
    answered = [answer.latency for answer in counted if answer.end is End.ANSWERED]
    return {
        "mean ms": fmean(answered) * 1e3,
        "p50 ms": percentiles[49] * 1e3,
        "p99 ms": percentiles[98] * 1e3,
        "not answered": sum(answer.end is not End.ANSWERED for answer in counted),
        "generator's lag p99 ms": quantiles((each.lag for each in counted), n=100)[98] * 1e3,
    }
