"""Light traffic after an overload: when is all well again?"""

from adaptive_batching.bench.http.latency import percentile
from adaptive_batching.bench.programs.apps import MAX_LATENCY, RECOVERY_CAPACITY
from adaptive_batching.bench.report import Report, Row, Verdict
from adaptive_batching.bench.servers import service
from adaptive_batching.bench.traffic import ROWS
from adaptive_batching.load import Answer, End, OpenLoop, run_open_loop

_LIGHT = 200.0  # requests a second
_TIMES = 2  # the capacity


async def measure(*, loop: str, quick: bool) -> Report:
    """Light traffic after an overload: when is all well again?"""
    before, flood, after = (0.5, 0.5, 1.5) if quick else (2.0, 5.0, 10.0)
    overload = _TIMES * RECOVERY_CAPACITY
    phases = [(_LIGHT, before), (overload, flood), (_LIGHT, after)]
    async with service("recovery", loop) as server:
        plan = OpenLoop(url=f"{server.url}/model", bodies=ROWS.bodies, phases=phases)
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
        f"recovery: {_TIMES} times the {RECOVERY_CAPACITY:,.0f}/s that a model of 10 ms + 0.5 ms·n"
        f" can do, max_latency {MAX_LATENCY * 1e3:.0f} ms, {loop}"
    )
    verdicts = [
        Verdict("goodput from a second after", restored or 0.0, "at least", 1.0, "of requests"),
        Verdict("last request not in time", max(0.0, *bad, 0.0), "at most", MAX_LATENCY, "s after"),
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
        "p50 ms": percentile(answered, 50),
        "p99 ms": percentile(answered, 99),
    }


def _good(answer: Answer) -> bool:
    return answer.end is End.ANSWERED and answer.latency <= MAX_LATENCY


def _goodput(answers: list[Answer]) -> float | None:
    return sum(map(_good, answers)) / len(answers) if answers else None
