"""How long to wait before a worker is started again."""

from adaptive_batching.workers.pool.backoff import Backoff


def test_doubles_up_to_ten_seconds():
    """Each short life doubles the wait."""
    backoff = Backoff(lambda: 1.0)
    waits = [backoff.after(0.0) for _ in range(9)]
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]


def test_a_long_life_starts_over():
    """After half a minute of health, earlier crashes are forgotten."""
    backoff = Backoff(lambda: 1.0)
    assert [backoff.after(lived) for lived in (0.0, 29.0, 30.0, 0.0)] == [0.1, 0.2, 0.1, 0.2]


def test_jitter_takes_up_to_half():
    """Workers that died together start apart."""
    assert Backoff(lambda: 0.0).after(0.0) == 0.05
