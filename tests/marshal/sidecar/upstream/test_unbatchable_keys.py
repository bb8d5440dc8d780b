"""Keys whose answers can't be shared out: remembered for a while, and not without end."""

from adaptive_batching.marshal.sidecar.upstream.unbatchable_keys import UnbatchableKeys


def test_it_is_tried_again():
    """After a minute; if it is still so, after twice as long."""
    keys = UnbatchableKeys()
    keys.enter("k", 0.0)
    keys.enter("k", 0.1)
    assert keys.holds("k", "p", 59.9)
    assert not keys.holds("k", "p", 60.0)
    keys.enter("k", 60.0)
    assert keys.holds("k", "p", 179.9)
    assert not keys.holds("k", "p", 180.0)
    assert not keys.holds("another", "p", 1.0)


def test_for_ever():
    """A place that answers otherwise in a batch than alone is not tried again, whatever comes."""
    keys = UnbatchableKeys()
    keys.set_apart("p")
    for number in range(3000):
        keys.enter(number, 0.0)
    assert keys.holds("k", "p", 1e9)
    assert not keys.holds("k", "q", 1e9)


def test_many_places():
    """Where there are more than are remembered, nothing is batched: none is ever forgotten."""
    keys = UnbatchableKeys()
    for number in range(1023):
        keys.set_apart(number)
    assert not keys.holds("k", "q", 0.0)
    for number in range(3000):
        keys.set_apart(number)
    assert len(keys) == 1024
    assert keys.holds("k", "q", 0.0)


def test_many_keys():
    """Of more than a thousand the oldest are forgotten: a client may make them up."""
    keys = UnbatchableKeys()
    for number in range(3000):
        keys.enter(number, 0.0)
    assert len(keys) == 1024
    assert keys.holds(2999, "p", 1.0)
    assert not keys.holds(0, "p", 1.0)
