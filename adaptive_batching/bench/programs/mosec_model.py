"""The model of `bench http --part closed-loop` behind mosec: `python mosec_model.py WAIT_MS …`.

It runs in an environment of its own, in which there is nothing of ours.
"""

import sys
import time
from typing import Any

import msgspec
from mosec import Server, Worker


class Model(Worker):  # type: ignore[misc]  # it may not be installed here
    """Sleeps as long as a small model computes on a GPU."""

    def deserialize(self, data: bytes) -> Any:
        """Read JSON as fast as ours does."""
        return msgspec.json.decode(data)

    def serialize(self, data: Any) -> bytes:
        """Write JSON as fast as ours does."""
        return msgspec.json.encode(data)

    def forward(self, data: list[Any]) -> list[Any]:
        """Return the items."""
        time.sleep(5e-3 + 5e-5 * len(data))
        return data


if __name__ == "__main__":
    server = Server()
    server.append_worker(Model, num=1, max_batch_size=64, max_wait_time=int(sys.argv[1]))
    server.run()
