"""A service under load over real HTTP: every server and every generator is a process of its own."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from statistics import median, quantiles

from adaptive_batching.bench.apps import MAX_LATENCY, RECOVERY_CAPACITY
from adaptive_batching.bench.contest import take_turns
from adaptive_batching.bench.report import Report, Row, Verdict, ratio
from adaptive_batching.bench.servers import ServerProcess, bare_server, service
from adaptive_batching.load import (
    Answer,
    ClosedLoop,
    End,
    OpenLoop,
    run_closed_loop,
    run_open_loop,
)

_BODY = b"[5.1, 3.5, 1.4, 0.2]"
_CONNECTIONS = 64
_THROUGHPUT = 0.7  # times bare
_DIFFERENCE = 1.0  # ms
_RATES = (200.0, 1_000.0, 4_000.0)  # requests a second
_LIGHT = 200.0


async def measure(parts: Sequence[str], *, loop: str, quick: bool) -> list[Report]:
    """Measure some of `PARTS`."""
    return [await PARTS[part](loop, quick) for part in parts]


# ----------------------------------------------------------------------------------- throughput


async def _throughput(loop: str, quick: bool) -> Report:  # noqa: FBT001  one of PARTS
    """A model that costs nothing, as many requests as clients can send."""
    seconds, rounds = (1.0, 1) if quick else (5.0, 5)
    async with service("throughput", loop) as ours, bare_server(loop) as bare:
        contestants = {
            "service": partial(_closed, ours, "/no-op", seconds),
            "bare aiohttp": partial(_closed, bare, "/", seconds),
        }
        await take_turns(contestants, 1)  # to warm up
        taken = await take_turns(contestants, rounds)
    rates = {name: [row["requests/s"] for row in turns] for name, turns in taken.items()}
    times = ratio(rates["service"], rates["bare aiohttp"])
    rows: list[Row] = [
        {
            "server": name,
            **{figure: median(row[figure] for row in turns) for figure in turns[0]},
            "times bare": ratio(rates[name], rates["bare aiohttp"]),
        }
        for name, turns in taken.items()
    ]
    title = f"throughput: no-op model in a process, {_CONNECTIONS} clients in a closed loop, {loop}"
    return Report(
        title,
        rows,
        [Verdict("requests/s", times, "at least", _THROUGHPUT, "times bare")],
    )


async def _closed(server: ServerProcess, path: str, seconds: float) -> dict[str, float]:
    before = server.cpu_seconds()
    plan = ClosedLoop(url=server.url + path, body=_BODY, connections=_CONNECTIONS, duration=seconds)
    result = await run_closed_loop(plan)
    spent = server.cpu_seconds() - before
    return {
        "requests/s": result.rate,
        "p50 ms": result.p50 * 1e3,
        "p99 ms": result.p99 * 1e3,
        "failed": result.failed,
        "CPU µs/request": spent / max(1, result.requests) * 1e6,
    }


# -------------------------------------------------------------------------------------- latency


async def _latency(loop: str, quick: bool) -> Report:  # noqa: FBT001  one of PARTS
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
                figures = {name: median(row[name] for row in turns) for name in turns[0]}
                rows.append({"requests/s": rate, "policy": policy, **figures})
            for name in ("p50 ms", "p99 ms"):
                pairs = zip(taken["cork"], taken["greedy"], strict=True)
                more = median(cork[name] - greedy[name] for cork, greedy in pairs)
                what = f"{name[:3]} at {rate:,.0f}/s"
                verdicts.append(Verdict(what, more, "at most", _DIFFERENCE, "ms above greedy"))
    title = f"latency: model of 5 ms + 0.05 ms·n in a process, Poisson traffic, {loop}"
    return Report(title, rows, verdicts)


async def _open(url: str, rate: float, seconds: float) -> dict[str, float]:
    warm_up = seconds / 5
    phases = [(rate, warm_up + seconds)]
    answers = await run_open_loop(OpenLoop(url=url, bodies=[_BODY], phases=phases))
    counted = [answer for answer in answers if answer.scheduled >= warm_up]
    return {
        "p50 ms": _quantile(counted, 50) or 0.0,
        "p99 ms": _quantile(counted, 99) or 0.0,
        "not answered": sum(answer.end is not End.ANSWERED for answer in counted),
        "generator's lag p99 ms": quantiles((each.lag for each in counted), n=100)[98] * 1e3,
    }


# ------------------------------------------------------------------------------------- recovery


async def _recovery(loop: str, quick: bool) -> Report:  # noqa: FBT001  one of PARTS
    """Light traffic after an overload: when is all well again?"""
    before, flood, after = (0.5, 0.5, 1.5) if quick else (2.0, 5.0, 10.0)
    overload = 2 * RECOVERY_CAPACITY
    phases = [(_LIGHT, before), (overload, flood), (_LIGHT, after)]
    async with service("recovery", loop) as server:
        plan = OpenLoop(url=f"{server.url}/model", bodies=[_BODY], phases=phases)
        answers = await run_open_loop(plan)
    end = before + flood
    spans = {
        f"before, {_LIGHT:.0f}/s": (0.0, before),
        f"overload, {overload:,.0f}/s": (before, end),
        f"the second after, {_LIGHT:.0f}/s": (end, end + 1.0),
        f"from then on, {_LIGHT:.0f}/s": (end + 1.0, end + after),
    }
    rows = [_span(name, answers, *span) for name, span in spans.items()]
    restored = _goodput([each for each in answers if each.scheduled >= end + 1.0])
    bad = [each.scheduled - end for each in answers if not _good(each)]
    title = (
        f"recovery: twice the {RECOVERY_CAPACITY:,.0f}/s that a model of 10 ms + 0.5 ms·n can do,"
        f" max_latency {MAX_LATENCY * 1e3:.0f} ms, {loop}"
    )
    verdicts = [
        Verdict("goodput from a second after", restored or 0.0, "at least", 1.0, "of requests"),
        Verdict("last request not in time", max(0.0, *bad, 0.0), "at most", 1.0, "s after"),
    ]
    return Report(title, rows, verdicts)


def _span(name: str, answers: list[Answer], start: float, stop: float) -> Row:
    sent = [each for each in answers if start <= each.scheduled < stop]
    answered = [each for each in sent if each.end is End.ANSWERED]
    return {
        "traffic": name,
        "requests": len(sent),
        "goodput": _goodput(sent),
        "good/s": sum(map(_good, sent)) / (stop - start),
        "refused": sum(each.end is End.REFUSED for each in sent),
        "errors": sum(each.end is End.ERROR for each in sent),
        "p50 ms": _quantile(answered, 50),
        "p99 ms": _quantile(answered, 99),
    }


def _good(answer: Answer) -> bool:
    return answer.end is End.ANSWERED and answer.latency <= MAX_LATENCY


def _goodput(answers: list[Answer]) -> float | None:
    return sum(map(_good, answers)) / len(answers) if answers else None


def _quantile(answers: list[Answer], percent: int) -> float | None:
    """Milliseconds within which that share was answered."""
    if len(answers) < 2:
        return None
    return quantiles((each.latency for each in answers), n=100)[percent - 1] * 1e3


PARTS: dict[str, Callable[[str, bool], Awaitable[Report]]] = {
    "throughput": _throughput,
    "latency": _latency,
    "recovery": _recovery,
}
