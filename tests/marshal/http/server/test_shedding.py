"""Who is refused and asks again at once does not keep the process from all else."""

import asyncio
import time

import pytest

from adaptive_batching.marshal.http.server.shedding import ReadLag, Refusals
from tests.marshal.client import until

_COST = 50e-6  # seconds


def flood(refusals, clients, seconds):
    """Clients that ask again as soon as they are read; returns the share of time that they cost."""
    now, spent, due = 0.0, 0.0, [0.0] * clients
    while now < seconds:
        first = min(range(clients), key=due.__getitem__)
        began = max(now, due[first])
        now, spent = began + _COST, spent + _COST
        due[first] = refusals.next_look(began, now) or now
    return spent / now


@pytest.mark.parametrize("clients", [16, 64, 96])
def test_refusals_have_a_share_of_the_time(clients):
    """A tenth, once each has been refused."""
    assert flood(Refusals(), clients, 10.0) == pytest.approx(0.1, abs=0.02)


def test_a_refusal_now_and_then_is_not_paced():
    """A thousand a second of them, evenly, are read on at once, and so is one after a flood."""
    refusals = Refusals()
    flood(refusals, 100, 1.0)
    looks = [refusals.next_look(9 + n * 1e-3, 9 + n * 1e-3 + _COST) for n in range(1000)]
    assert looks == [None] * 1000


def test_nobody_is_left_unread_for_long():
    """Be there a hundred thousand: he may be another one, behind the same proxy."""
    refusals = Refusals()
    now = 0.0
    for _ in range(100_000):
        began, now = now, now + _COST
        again = refusals.next_look(began, now)
    assert again == now + 0.05


async def test_what_is_read_after_a_standstill_may_have_come_at_its_beginning():
    """On every loop, for it is the lateness of a timer that tells."""
    lag = ReadLag()
    lag.start()
    await asyncio.sleep(0)
    time.sleep(0.1)  # noqa: ASYNC251  the loop stands still
    assert lag.of(time.monotonic()) > 0.08
    await until(lambda: not lag._late)
    lag.stop()
