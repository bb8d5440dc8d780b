"""Which servers get batches: who fails is left alone, comes back slowly, and is never the last."""

from math import inf

import pytest

from adaptive_batching.marshal.sidecar.upstream.outlier_detection import OutlierDetection, State


def some(*names, concurrency=1):
    outliers = OutlierDetection(concurrency)
    for name in names:
        outliers.admit(name)
    return outliers


def fail(outliers, name, now, times=5):
    for _ in range(times):
        outliers.failed(name, now)


def test_five_failures_in_a_row():
    """Four and a success are none; five eject it for 30 seconds, and then it is probed."""
    outliers = some("a", "b")
    fail(outliers, "a", 0.0, times=4)
    outliers.succeeded("a", 1.0)
    fail(outliers, "a", 10.0, times=4)
    assert outliers.state("a", 20.0) is State.IN
    outliers.failed("a", 20.0)
    assert (outliers.state("a", 49.9), outliers.permits("a", 49.9)) == (State.EJECTED, 0)
    assert outliers.next_change(20.0) == 50.0
    assert (outliers.state("a", 50.0), outliers.permits("a", 50.0)) == (State.PROBED, 1)
    assert outliers.permits("b", 20.0) == 1


def test_a_probe_decides():
    """One failure of the probe is enough, and the next ejection lasts twice as long."""
    outliers = some("a", "b")
    fail(outliers, "a", 0.0)
    outliers.failed("a", 30.0)
    assert outliers.state("a", 89.9) is State.EJECTED
    assert outliers.state("a", 90.0) is State.PROBED
    outliers.succeeded("a", 90.0)
    assert outliers.state("a", 90.0) is State.SLOW_START
    assert outliers.state("a", 100.0) is State.IN
    assert outliers.ejections == 2


def test_what_was_under_way_when_it_was_ejected():
    """It says nothing new, and does not make the ejection longer."""
    outliers = some("a", "b")
    fail(outliers, "a", 0.0, times=12)
    assert outliers.state("a", 30.0) is State.PROBED


def test_ejections_are_forgiven():
    """Each 30 seconds in service take one back; and none lasts longer than five minutes."""
    outliers = some("a", "b")
    fail(outliers, "a", 0.0)
    now = 0.0
    for _ in range(12):
        now = outliers.next_change(now)
        outliers.failed("a", now)
    assert outliers.next_change(now) == now + 300.0
    outliers.succeeded("a", now + 300.0)
    fail(outliers, "a", now + 10_000.0)
    assert outliers.state("a", now + 10_030.0) is State.PROBED


def test_the_only_one():
    """However often it fails, it is asked."""
    outliers = some("a")
    fail(outliers, "a", 0.0, times=100)
    assert (outliers.state("a", 0.0), outliers.permits("a", 0.0)) == (State.IN, 1)


def test_the_last_one():
    """When it fails as well, it changes places with whoever is out longest: one is always asked."""
    outliers = some("a", "b", "c")
    for at, name in enumerate("abc"):
        fail(outliers, name, float(at))
    assert [outliers.permits(name, 2.0) for name in "abc"] == [1, 0, 0]
    outliers.failed("a", 3.0)
    assert [outliers.permits(name, 3.0) for name in "abc"] == [0, 1, 0]
    outliers.failed("b", 4.0)
    outliers.succeeded("c", 5.0)
    assert outliers.permits("c", 5.0) == 1


def test_a_turn_among_servers_that_are_all_out_is_no_ejection():
    """Each is ejected once, however often it fails then; one that came back can be again."""
    outliers = some("a", "b")
    fail(outliers, "a", 0.0)
    assert (outliers.none_left, outliers.ejected_for("a", 1.0)) == (False, 29.0)
    fail(outliers, "b", 1.0)
    for now in range(2, 200):
        probed = "a" if outliers.permits("a", now) else "b"
        outliers.failed(probed, now)
    assert (outliers.none_left, outliers.ejections) == (True, 2)
    outliers.succeeded("a", 200.0)
    assert not outliers.none_left
    fail(outliers, "a", 201.0)
    assert outliers.ejections == 3


def test_a_failure_sends_the_next_batch_elsewhere():
    """For a tenth of a second, then for two; but only while there is another one."""
    outliers = some("a", "b")
    outliers.failed("a", 0.0)
    assert outliers.state("a", 0.09) is State.PAUSED
    assert outliers.state("a", 0.1) is State.IN
    outliers.failed("a", 1.0)
    assert outliers.next_change(1.0) == pytest.approx(1.2)
    outliers.dismiss("b")
    outliers.failed("a", 2.0)
    assert outliers.state("a", 2.0) is State.IN


def test_no_time():
    """It is left alone for as long as it says, or for a growing pause, but never ejected."""
    outliers = some("a")
    outliers.refused("a", 0.0, retry_after=7.0)
    outliers.refused("a", 0.0, retry_after=7.0)
    assert (outliers.state("a", 6.9), outliers.next_change(0.0)) == (State.PAUSED, 7.0)
    now, waits = 7.0, []
    for _ in range(8):
        outliers.refused("a", now)
        again = outliers.next_change(now)
        waits.append(round(again - now, 3))
        now = again
    assert waits == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]
    outliers.refused("a", now, retry_after=1e9)
    assert outliers.next_change(now) == now + 60.0


def test_a_probe_that_finds_no_time():
    """A server that has just been started may have none: it is probed again when it has."""
    outliers = some("a", "b", concurrency=4)
    fail(outliers, "a", 0.0)
    outliers.refused("a", 30.0, retry_after=20.0)
    assert (outliers.permits("a", 30.0), outliers.next_change(30.0)) == (0, 50.0)
    assert (outliers.state("a", 50.0), outliers.permits("a", 50.0)) == (State.PROBED, 1)
    outliers.refused("a", 50.0)
    assert (outliers.permits("a", 50.0), outliers.next_change(50.0)) == (0, 50.2)
    outliers.succeeded("a", 50.2)
    assert outliers.state("a", 50.2) is State.SLOW_START


def test_a_probe_that_comes_sooner_than_it_had_asked_for():
    """What it said before it was ejected does not hide what it says to the probe."""
    outliers = some("a", "b")
    outliers.refused("a", 0.0, retry_after=60.0)
    fail(outliers, "a", 0.0)
    outliers.refused("a", 10.0)
    assert outliers.state("a", 30.0) is State.PROBED
    outliers.refused("a", 30.0, retry_after=9.0)
    assert (outliers.permits("a", 30.0), outliers.next_change(30.0)) == (0, 39.0)


def test_failures_do_not_shorten_the_time_that_it_asked_for():
    """Of two batches one is refused for a minute, and over the other it hangs up."""
    outliers = some("a", "b")
    outliers.refused("a", 0.0, retry_after=60.0)
    outliers.failed("a", 0.1)
    outliers.shared_out("b", "key")
    outliers.garbled("a", "key", 0.2)
    assert (outliers.state("a", 59.9), outliers.permits("a", 59.9)) == (State.PAUSED, 0)
    assert outliers.next_change(0.2) == 60.0


def test_slow_start():
    """Who comes back gets its permits one by one, over ten seconds."""
    outliers = some("a", concurrency=4)
    outliers.refused("a", 0.0, retry_after=1.0)
    now, permits = 1.0, []
    while now < inf:
        permits.append((now, outliers.permits("a", now)))
        now = outliers.next_change(now)
    assert permits == [(1.0, 1), (3.5, 2), (6.0, 3), (8.5, 4), (11.0, 4)]


def test_who_is_left_when_others_vanish():
    """If only ejected ones are left, one of them is probed."""
    outliers = some("a", "b")
    fail(outliers, "a", 0.0)
    outliers.dismiss("b")
    assert outliers.permits("a", 1.0) == 1
    assert "b" not in outliers


def answer(outliers, name, pattern, now=0.0):
    """Some answers: x for an error that may be anybody's fault."""
    for each in pattern:
        if each == "x":
            outliers.erred(name, now)
        else:
            outliers.succeeded(name, now)


def test_a_broken_server_among_others_that_are_well():
    """It answers at once, and with errors: it would draw all batches if it were left in."""
    outliers = some("a", "b")
    answer(outliers, "b", "..x......x")
    answer(outliers, "a", "x" * 9)
    assert outliers.state("a", 0.0) is State.IN
    answer(outliers, "a", "x")
    assert outliers.state("a", 0.0) is State.EJECTED
    outliers.erred("a", 30.0)
    assert outliers.state("a", 30.0) is State.EJECTED
    answer(outliers, "a", ".", now=90.0)
    assert outliers.state("a", 90.0) is State.SLOW_START


def test_one_that_breaks_after_it_did_well():
    """Ten errors in a row tell, if another one has hardly any; else its share has to."""
    for others, batches in (("." * 10, 10), ("...x.." * 10, 37)):
        outliers = some("a", "b")
        answer(outliers, "a", "." * 100)
        answer(outliers, "b", others)
        answer(outliers, "a", "x" * (batches - 1))
        assert outliers.state("a", 0.0) is State.IN
        answer(outliers, "a", "x")
        assert outliers.state("a", 0.0) is State.EJECTED


def test_a_flood_of_bad_items():
    """All servers answer with errors then, and none is to blame."""
    outliers = some("a", "b")
    for _ in range(50):
        answer(outliers, "b", "xx.x.x")
        answer(outliers, "a", "xxxxxx")
    assert outliers.state("a", 0.0) is State.IN
    assert outliers.state("b", 0.0) is State.IN


def test_one_that_has_memory_for_nobody():
    """What it says of batches may be about their size; of a request alone it can't be."""
    outliers = some("a", "b")
    answer(outliers, "b", "++++++++++")
    for _ in range(100):
        outliers.exhausted("a", 0.0, alone=False)
    for _ in range(9):
        outliers.exhausted("a", 0.0, alone=True)
    assert outliers.state("a", 0.0) is State.IN
    outliers.exhausted("a", 0.0, alone=True)
    assert outliers.state("a", 0.0) is State.EJECTED
    outliers.exhausted("a", 1.0, alone=False)  # was under way when it was ejected
    assert outliers.state("a", 30.0) is State.PROBED
    outliers.exhausted("a", 30.0, alone=False)
    assert outliers.state("a", 30.0) is State.EJECTED
    assert outliers.ejections == 2


def test_one_whose_answers_can_not_be_shared_out():
    """Where another one's can, it is left alone, longer each time, and then ejected."""
    outliers = some("a", "b")
    outliers.shared_out("b", "key")
    assert outliers.garbled("a", "key", 0.0)
    assert outliers.state("a", 0.09) is State.PAUSED
    for at in (1.0, 2.0, 3.0):
        outliers.succeeded("a", at)  # requests that went alone
        outliers.garbled("a", "key", at)
    assert outliers.state("a", 3.5) is State.PAUSED
    outliers.garbled("a", "key", 4.0)
    assert outliers.state("a", 4.0) is State.EJECTED
    assert outliers.garbled("a", "key", 5.0)  # it was under way
    outliers.garbled("a", "key", 34.0)
    assert outliers.state("a", 93.0) is State.EJECTED


def test_a_key_whose_answers_can_not_be_shared_out():
    """The key is to blame as soon as two servers agree, or if there is one only."""
    assert not some("a").garbled("a", "key", 0.0)
    outliers = some("a", "b", "c")
    assert outliers.garbled("a", "key", 0.0)
    outliers.shared_out("b", "another key")
    assert not outliers.garbled("b", "key", 0.0)
    assert outliers.state("b", 0.0) is State.IN
    outliers.shared_out("c", "key")
    assert outliers.garbled("a", "key", 1.0)


def test_nobody_is_ejected_before_another_was_asked():
    """Until then it only waits for longer and longer, so that another one is."""
    outliers = some("a", "b")
    for at in range(20):
        assert outliers.garbled("a", "key", 10.0 * at)
    assert outliers.state("a", 191.0) is State.PAUSED
    assert not outliers.garbled("b", "key", 191.0)


def test_a_batch_that_could_be_shared_out():
    """It begins anew, and keys that a client makes up are forgotten."""
    outliers = some("a", "b")
    for number in range(2000):
        outliers.shared_out("b", number)
        outliers.garbled("a", number, number)
        outliers.shared_out("a", number)
    assert not outliers.ejections
    outliers.garbled("a", 0, 9999.0)
    assert not outliers.garbled("b", 0, 9999.0)
