"""`python -m adaptive_batching.load`: reads a plan from stdin, writes what came of it to stdout."""

import asyncio
import selectors
import sys

import msgspec

from adaptive_batching.load.closed_loop import closed_loop
from adaptive_batching.load.open_loop import open_loop
from adaptive_batching.load.plans import Answer, ClosedLoop, OpenLoop, Throughput


def main() -> None:
    """Carry out one plan."""
    plan = msgspec.json.decode(sys.stdin.buffer.read(), type=OpenLoop | ClosedLoop)
    sys.stdout.buffer.write(msgspec.json.encode(_carry_out(plan)))


def _carry_out(plan: OpenLoop | ClosedLoop) -> list[Answer] | Throughput:
    if isinstance(plan, ClosedLoop):
        return closed_loop(plan)
    with asyncio.Runner(loop_factory=_punctual_loop) as runner:
        return runner.run(open_loop(plan))


def _punctual_loop() -> asyncio.AbstractEventLoop:
    """A loop whose timers keep microseconds: epoll rounds them up to whole milliseconds."""
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


if __name__ == "__main__":
    main()
