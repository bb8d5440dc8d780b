"""A feed hands out blocks, and finds in any of them what it would have found in the first."""

from math import inf, nan

import pytest

from adaptive_batching.simulation.clients.closed_loop import ClosedLoop, Span
from adaptive_batching.simulation.clients.keys import Lots
from adaptive_batching.simulation.traffic import arrival_stream as module
from adaptive_batching.simulation.traffic.arrival_stream import ArrivalStream
from adaptive_batching.simulation.traffic.traces import Request


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", 2)


def drained(feed):
    blocks = [(feed.times[:-1], feed.sizes[:])]
    while feed.refill():
        blocks.append((feed.times[:-1], feed.sizes[:]))
    return blocks


def test_blocks():
    """Each is in place before the last is over, with a sentinel behind it."""
    assert drained(ArrivalStream(iter([1, 2, 3]), [7, 8, 9])) == [
        ([1.0, 2.0], [7, 8]),
        ([3.0], [9]),
    ]
    assert ArrivalStream([1.0]).times[-1] == inf


def test_nothing():
    """No arrivals, only the sentinel."""
    assert drained(ArrivalStream([])) == [([], [])]


@pytest.mark.parametrize(
    ("arrivals", "sizes", "message"),
    [
        ([1, 2, 3, nan], None, "expected finite seconds"),
        ([1, 2, 1.5], None, r"expected times in order, got 1\.5 after 2\.0"),
        ([1, 2, 3], [1, 1], "expected one for each of 3 arrivals, got 2"),
        ([1, 2, 3], [1] * 4, "expected one for each of 3 arrivals, got more"),
    ],
)
def test_faults_beyond_the_first_block(arrivals, sizes, message):
    """They are found when they are reached."""
    with pytest.raises(ValueError, match=message):
        drained(ArrivalStream(arrivals, sizes))


def test_users_come_again_in_order():
    """Between those who are still to come, never before those who came."""
    feed = ArrivalStream(ClosedLoop(2, 100.0, Span(0.0, 0.0), Span(1.0, 2.0)))
    first, second = feed.times[:-1]
    feed.come = 2
    feed.answered(1, second)
    assert feed.times[:2] == [first, second]
    assert second + 1 <= feed.times[2] <= second + 2
    assert len(feed.sizes) == len(feed.times) - 1


def test_others_do_not():
    """An answer changes nothing about arrivals that are known."""
    feed = ArrivalStream([1.0, 2.0])
    feed.answered(5, 1.5)
    assert feed.times == [1.0, 2.0, inf]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"keys": ["a"]}, "keys: expected one for each of 2 arrivals, got 1"),
        ({"max_latencies": [1.0]}, "max_latencies: expected one for each of 2 arrivals, got 1"),
        ({"costs": [1.0]}, "costs: expected one for each of 2 arrivals, got 1"),
        ({"costs": [1.0, -1.0]}, "costs: expected finite numbers of 0 or more, got -1"),
        ({"max_latencies": [1.0, 0.0]}, "max_latencies: expected positive seconds or NaN, got 0"),
    ],
)
def test_what_jobs_bring_is_checked(columns, message):
    """Too few of a column, or a patience that is none."""
    with pytest.raises(ValueError, match=message):
        ArrivalStream([1.0, 2.0], **columns)


def test_requests_as_a_trace_has_them():
    """Each comes with its own key and deadline, and the usual one where it has none."""
    feed = ArrivalStream([Request(1.0, 2, "a", 0.5, 7.0), Request(2.0)])
    first, second = feed.take(9.0), feed.take(9.0)
    assert (first.cost, second.cost) == (7.0, 0.0)
    assert (first.arrived, first.size, first.key, first.deadline) == (1.0, 2, "a", 1.5)
    assert (second.size, second.key, second.deadline) == (1, None, 11.0)
    assert feed.next == inf


def test_who_calls_again_draws_another_key():
    """Users have no key of their own; each of their requests draws one."""
    feed = ArrivalStream(ClosedLoop(64, 100.0, Span(0.0, 0.0), Span(1.0, 2.0)), keys=Lots(2))
    drawn = [feed.take(1.0).key for _ in range(64)]
    feed.answered(1, 2.0)
    assert {*drawn, feed.take(1.0).key} == {0, 1}
