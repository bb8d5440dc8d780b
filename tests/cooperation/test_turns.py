"""Who leads and who follows, without any thread."""

from adaptive_batching.cooperation.turns import Turns
from adaptive_batching.cooperation.waiter import Waiter


def test_the_first_leads_and_the_one_who_waits_longest_is_next() -> None:
    """Followers lead in the order of their coming; after the last, the next to come leads."""
    turns = Turns()
    assert turns.follow() is None
    second, third = turns.follow(), turns.follow()
    assert second is not None
    assert third is not None
    turns.hand_over()
    assert (second.leads, third.leads) == (True, False)
    turns.leave(second)
    turns.hand_over()
    assert third.leads
    turns.leave(third)
    turns.hand_over()
    assert turns.follow() is None


def test_who_has_his_answer_is_not_asked_to_lead() -> None:
    """The lead goes past him, and past who has gone."""
    turns = Turns()
    turns.follow()
    answered, gone, waits = turns.follow(), turns.follow(), turns.follow()
    assert answered is not None
    assert gone is not None
    assert waits is not None
    turns.wake([answered])
    turns.leave(gone)
    turns.hand_over()
    assert (answered.leads, gone.leads, waits.leads) == (False, False, True)


def test_the_last_to_wake_tells_the_leader_who_gathers() -> None:
    """Not the first; and one who woke by himself, late, was never counted."""
    turns = Turns()
    turns.follow()
    first, last, late = turns.follow(), turns.follow(), turns.follow()
    assert first is not None
    assert last is not None
    assert late is not None
    turns.wake([first, last])
    turns.wake([first])  # twice is once
    turns.gathering = Waiter()
    turns.leave(late)
    turns.leave(first)
    assert turns.gathering.silent
    turns.leave(last)
    assert not turns.gathering.silent
