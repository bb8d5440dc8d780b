"""A socket that external workers connect to, and the guests who do."""

import asyncio

from adaptive_batching.workers.external.connection import WorkerTerms
from adaptive_batching.workers.external.external import ConnectedWorkers
from tests.workers.external.guest import Guest
from tests.workers.pool.test_pool import Changes


class Scene:
    """Workers that listen, and who connects to them; all is closed when `stack` is."""

    def __init__(self, path, stack):
        self.path = path
        self.changes = Changes()
        self._stack = stack

    async def listen(self, *, batch_timeout=5.0, max_frame=2**20, hello_timeout=5.0, **how):
        terms = WorkerTerms(batch_timeout, max_frame, hello_timeout)
        self.workers = ConnectedWorkers(str(self.path), terms, **{"max_workers": 8, **how})
        self._stack.push_async_callback(self.workers.aclose)
        await self.workers.start(self.changes)
        return self.workers

    async def guest(self, **hello):
        """One more worker that is known to be idle."""
        before = self.workers.health.alive
        guest = await Guest.idle(self.path, **hello)
        self._stack.callback(guest.close)
        await self.changes.until(lambda: self.workers.health.alive == before + 1)
        return guest

    async def connect(self):
        """Somebody who has said nothing yet."""
        guest = await Guest.connect(self.path)
        self._stack.callback(guest.close)
        return guest


def asked(workers, items, worker=0):
    """A batch that runs on one of them."""
    return asyncio.create_task(workers.run(items, worker))
