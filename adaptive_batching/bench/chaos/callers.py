"""Callers who come at random moments, whatever became of earlier calls."""

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from random import Random

from adaptive_batching.bench.chaos.model import right_answer
from adaptive_batching.dispatcher import Dispatcher
from adaptive_batching.errors import DeadlineExceeded, Refused, WorkerError

_PATIENCE = 10.0  # seconds; a call without an outcome so long after the last one never gets one


@dataclass(slots=True)
class Outcomes:
    """How the calls of one run ended.

    Attributes:
        calls: How many there were.
        latencies: Of those that got the right answer (seconds).
        ends: All that ended, by how.
    """

    calls: int = 0
    latencies: list[float] = field(default_factory=list)
    ends: Counter[str] = field(default_factory=Counter)


async def call_for(
    dispatcher: Dispatcher[int, int], rate: float, duration: float, random: Random
) -> Outcomes:
    """Call at that mean rate (calls a second) for so many seconds; returns when all have ended."""
    outcomes = Outcomes()
    calls: set[asyncio.Task[None]] = set()
    due = start = time.monotonic()
    while due < start + duration:
        await asyncio.sleep(due - time.monotonic())  # a caller that is late calls at once
        call = asyncio.create_task(_call(dispatcher, outcomes.calls, outcomes))
        calls.add(call)
        call.add_done_callback(calls.discard)
        outcomes.calls += 1
        due += random.expovariate(rate)
    if calls:
        await asyncio.wait(calls, timeout=_PATIENCE)
    return outcomes


async def _call(dispatcher: Dispatcher[int, int], number: int, outcomes: Outcomes) -> None:
    began = time.monotonic()
    try:
        answer = await dispatcher.submit(number)
    except Refused:
        end = "refused"
    except DeadlineExceeded:
        end = "late"
    except WorkerError:
        end = "lost"
    except Exception:  # noqa: BLE001  it is counted
        end = "unexpected"
    else:
        end = "right" if answer == right_answer(number) else "wrong"
        if end == "right":
            outcomes.latencies.append(time.monotonic() - began)
    outcomes.ends[end] += 1
