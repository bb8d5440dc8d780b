"""Who kills and stops workers, at random moments."""

import asyncio
import os
import signal
from collections import Counter
from contextlib import suppress
from random import Random

from adaptive_batching.workers.pool.pool import WorkerPool


class Attacker:
    """Sends SIGKILL or SIGSTOP to a worker now and then.

    Args:
        workers: Whose processes it attacks.
        every: Seconds between two attacks, in the mean.
        random: When, whom and how.

    Attributes:
        attacks: How often it did, by signal.
    """

    def __init__(self, workers: WorkerPool, every: float, random: Random) -> None:
        self.attacks: Counter[signal.Signals] = Counter()
        self._workers = workers
        self._every = every
        self._random = random

    async def run(self) -> None:
        """Go on until cancelled."""
        while True:
            await asyncio.sleep(self._random.expovariate(1 / self._every))
            if self._workers.pids:
                self._attack(self._random.choice(self._workers.pids))

    def _attack(self, pid: int) -> None:
        how = self._random.choice([signal.SIGKILL, signal.SIGSTOP])
        with suppress(ProcessLookupError):  # it has just died by itself
            os.kill(pid, how)
            self.attacks[how] += 1
