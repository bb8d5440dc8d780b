"""Clients that send again when they are answered: does a batch wait for all of them?"""

from functools import partial
from statistics import fmean, median

from adaptive_batching.bench.contest import take_turns
from adaptive_batching.bench.report import Report, Row, Verdict, ratio
from adaptive_batching.bench.servers import service
from adaptive_batching.bench.traffic import ROWS
from adaptive_batching.load import ClosedLoop, End, OpenLoop, run_closed_loop, run_open_loop

_CONNECTIONS = 64
_POLICIES = ("cork", "greedy", "window:5ms")
_RATES = (200.0, 1_000.0)  # requests a second, in an open loop
_OF_WINDOW = 0.98
_OF_GREEDY = 1.2
_MS_ABOVE_GREEDY = 0.5


async def measure(*, loop: str, quick: bool) -> Report:
    """Requests a second of three policies by turns, and what holding costs where nobody returns."""
    seconds, rounds, rates = (1.0, 1, _RATES[:1]) if quick else (2.0, 7, _RATES)
    async with service("latency", loop) as server:
        url = {policy: f"{server.url}/{policy.replace(':', '-')}" for policy in _POLICIES}
        closed = {policy: partial(_closed, url[policy], seconds) for policy in _POLICIES}
        await take_turns(closed, 0 if quick else 1)  # to warm up
        returned = await take_turns(closed, rounds)
        opened = {
            rate: await take_turns(
                {policy: partial(_open, url[policy], rate, seconds) for policy in _POLICIES}, rounds
            )
            for rate in rates
        }
    by_window = ratio(returned["cork"], returned["window:5ms"])
    by_greedy = ratio(returned["cork"], returned["greedy"])
    verdicts = [
        Verdict("cork's requests/s", by_window, "at least", _OF_WINDOW, "times window:5ms"),
        Verdict("cork's requests/s", by_greedy, "at least", _OF_GREEDY, "times greedy"),
    ]
    for rate, latencies in opened.items():
        pairs = zip(latencies["cork"], latencies["greedy"], strict=True)
        more = median(cork - greedy for cork, greedy in pairs)
        what = f"cork's mean at {rate:,.0f}/s"
        verdicts.append(Verdict(what, more, "at most", _MS_ABOVE_GREEDY, "ms above greedy"))
    rows: list[Row] = [
        {
            "policy": policy,
            "requests/s": median(returned[policy]),
            "times greedy": ratio(returned[policy], returned["greedy"]),
            **{f"mean ms at {rate:,.0f}/s": median(opened[rate][policy]) for rate in rates},
        }
        for policy in _POLICIES
    ]
    title = (
        f"closed-loop: model of 5 ms + 0.05 ms·n in a process, {_CONNECTIONS} clients without think"
        f" time; then Poisson traffic, {loop}"
    )
    return Report(title, rows, verdicts)


async def _closed(url: str, seconds: float) -> float:
    """Requests a second."""
    plan = ClosedLoop(
        url=url,
        bodies=ROWS.bodies,
        answers=ROWS.answers,
        connections=_CONNECTIONS,
        duration=seconds,
    )
    return (await run_closed_loop(plan)).rate


async def _open(url: str, rate: float, seconds: float) -> float:
    """Mean latency of those that were answered (milliseconds)."""
    answers = await run_open_loop(OpenLoop(url=url, bodies=ROWS.bodies, phases=[(rate, seconds)]))
    return fmean(each.latency for each in answers if each.end is End.ANSWERED) * 1e3
