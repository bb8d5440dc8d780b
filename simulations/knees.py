"""What if larger batches answer fewer requests a second?

Covers: answers per second and mean latency in milliseconds of `cork`, `greedy` and `aimd`, of users
who send again when they are answered, before one worker.

Models: *wall*, 4 items in 5.35 ms, 6 in 10.1 and 8 in 18.3; *knee*, 12 items in 1.55 ms, 20 in 3.4
and 32 in 7.4; *line*, 5 ms + 0.05 ms * n. At most 8, 32 and 64 items. Turnaround 0.2 to 1 ms,
thinking 1 to 2 ms, a jitter of 0.1. The first half of the time is left out.

Answer: `cork` notices from which size on fewer items are answered in a second, and fills batches no
further. It has to have seen smaller ones for that: users who are served in batches of one and the
same size, from the first moment on, go on so.
"""

from drawn import drawn

from adaptive_batching.core import Limits
from adaptive_batching.simulation import ClosedLoop, Experiment, Row, Server, Span, Table

SECONDS = 20.0
POLICIES = ("cork", "greedy", "aimd")
WALL = Table(((1, 3.924e-3), (4, 5.35e-3), (6, 10.106e-3), (8, 18.277e-3)))
KNEE = Table(((1, 1.086e-3), (12, 1.546e-3), (16, 2.11e-3), (20, 3.438e-3), (32, 7.422e-3)))
LINE = Table(((1, 5.05e-3), (64, 8.2e-3)))
CELLS = (
    ("wall", WALL, 8, 5), ("wall", WALL, 8, 7), ("wall", WALL, 8, 12),
    ("knee", KNEE, 32, 20), ("knee", KNEE, 32, 40), ("knee", KNEE, 32, 60),
    ("line", LINE, 64, 40), ("line", LINE, 64, 100),
)  # fmt: skip


def told(curve: Table, largest: int, users: int, policy: str) -> str:
    """Answers a second and mean latency."""
    loop = ClosedLoop(users, SECONDS, Span(1e-3, 2e-3), Span(0.2e-3, 1e-3), seed=1)
    server = Server(0.0, 0.0, jitter=0.1, curve=curve)
    row: Row = Experiment(loop, server, Limits(largest), warmup=SECONDS / 2).run(policy)
    assert row.throughput is not None
    assert row.mean_latency is not None
    return f"{row.throughput:7,.0f} {row.mean_latency * 1e3:7.2f}"


print("model users |" + " |".join(f"{name + ': /s':>10}    mean" for name in POLICIES))
for name, curve, largest, users in drawn(CELLS):
    cells = " |".join(f"   {told(curve, largest, users, policy)}" for policy in POLICIES)
    print(f"{name:5} {users:5} |{cells}")
