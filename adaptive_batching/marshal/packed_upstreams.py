"""Web applications that packed requests are sent to, and that may not believe us."""

import logging
from typing import Any

from adaptive_batching.errors import UpstreamAnswered
from adaptive_batching.marshal.packed import NOT_ACCEPTED
from adaptive_batching.workers.upstream import Upstreams
from adaptive_batching.workers.upstream_messages import Forwarded, Reply

_log = logging.getLogger("adaptive_batching")


class PackedUpstreams(Upstreams):
    """Says in the log if packed requests are refused as such: it is no client's fault."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._refused = False

    async def run(self, items: list[Forwarded], worker: int, /) -> list[Reply]:
        """Send one batch; see `Upstreams.run`."""
        try:
            replies = await super().run(items, worker)
        except UpstreamAnswered as error:
            refused = error.reply.message.body == NOT_ACCEPTED
            if refused and not self._refused:
                _log.warning(
                    "%s: the application does not accept packed requests from here, and answers"
                    " 403: expected the secret that its PackedRequests has, in secret_file",
                    items[0].target,
                )
            self._refused = refused
            raise
        self._refused = False
        return replies
