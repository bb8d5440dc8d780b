"""Keys whose answers can't be shared out: remembered for a while, and not without end."""

from math import inf

from adaptive_batching.marshal.sidecar.upstream.unbatchable_keys import UnbatchableKeys


def test_it_is_tried_again():
    """After a minute; if it is still so, after twice as long."""
    keys = UnbatchableKeys()
    keys.enter("k", 0.0)
    keys.enter("k", 0.1)
    assert keys.holds("k", 59.9)
    assert not keys.holds("k", 60.0)
    keys.enter("k", 60.0)
    assert keys.holds("k", 179.9)
    assert not keys.holds("k", 180.0)
    assert not keys.holds("another", 1.0)


def test_for_ever():
    """Who gets other answers in a batch than alone is not tried again."""
    keys = UnbatchableKeys()
    keys.enter("k", 0.0)
    keys.enter("k", 1.0, wait=inf)
    assert keys.holds("k", 1e9)


def test_many_keys():
    """Of more than a thousand the oldest are forgotten: a client may make them up."""
    keys = UnbatchableKeys()
    for number in range(3000):
        keys.enter(number, 0.0)
    assert len(keys) == 1024
    assert keys.holds(2999, 1.0)
    assert not keys.holds(0, 1.0)
